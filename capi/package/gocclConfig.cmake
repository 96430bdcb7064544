# find_package(goccl) defines goccl::goccl (goccl.h), goccl::nccl (nccl.h) and goccl::mscclpp (mscclpp/core.hpp). The
# files may be moved together.
get_filename_component(goccl_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
foreach(name goccl nccl mscclpp)
  if(NOT TARGET goccl::${name})
    add_library(goccl::${name} SHARED IMPORTED)
    set(file lib${name}.so)
    if(name STREQUAL nccl)
      set(file libnccl.so.2)
    endif()
    set_target_properties(goccl::${name} PROPERTIES
      IMPORTED_LOCATION "${goccl_prefix}/lib/${file}"
      IMPORTED_SONAME ${file}
      INTERFACE_INCLUDE_DIRECTORIES "${goccl_prefix}/include")
  endif()
endforeach()
unset(goccl_prefix)
