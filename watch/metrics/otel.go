package metrics

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// OpenTelemetry sends what g gathers to an OTLP endpoint (http://host:4318) every so often, until the returned function
// is called, which sends once more. If endpoint is empty, OTEL_EXPORTER_OTLP_ENDPOINT applies.
func OpenTelemetry(ctx context.Context, g prometheus.Gatherer, endpoint string, every time.Duration) (
	stop func(context.Context) error, err error) {
	var options []otlpmetrichttp.Option
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil {
			return nil, err
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/v1/metrics"
		}
		options = append(options, otlpmetrichttp.WithEndpointURL(u.String()))
	}
	exporter, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, err
	}
	reader := sdk.NewPeriodicReader(exporter, sdk.WithInterval(every),
		sdk.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(g))))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "goccl"))))
	return func(ctx context.Context) error {
		return errors.Join(provider.ForceFlush(ctx), provider.Shutdown(ctx))
	}, nil
}
