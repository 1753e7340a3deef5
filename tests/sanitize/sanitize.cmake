# What `tests/sanitize/sanitize.py` adds to both native builds: CMAKE_PROJECT_INCLUDE reads it after `project()`.
# zig's clang instruments; it has no shared runtimes, so what the instrumentation calls stays undefined here and comes from
# the system compiler's libtsan or libasan and libubsan, which the process preloads.
string(REPLACE "," ";" apb_kinds "${APB_SANITIZE}")
foreach(kind IN LISTS apb_kinds)
  add_compile_options(-fsanitize=${kind})
endforeach()
# libubsan of gcc has no handler for calls through a pointer to another function type, and knows no clang vtable.
add_compile_options(-O1 -g1 -fno-omit-frame-pointer -fno-sanitize=function,vptr -fno-sanitize-recover=undefined)
enable_language(C)
add_library(apb_sanitize_names OBJECT "${CMAKE_CURRENT_LIST_DIR}/sanitize_names.c")
# Not instrumented, and not turned into calls of themselves.
set_target_properties(apb_sanitize_names PROPERTIES COMPILE_OPTIONS "-fPIC;-O1;-fno-builtin")
if(APB_SANITIZE STREQUAL "thread")
  target_compile_definitions(apb_sanitize_names PRIVATE APB_THREAD)
endif()
link_libraries($<TARGET_OBJECTS:apb_sanitize_names>)
# At the end of the link line, after the build's own -z defs.
link_libraries(-Wl,-z,undefs)
