# Unit tests of api/base.
baton_test(config_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/config_test.c LIBS baton_config)
foreach(module status bytes arena random backoff file_mark log clock mailbox)
  baton_test(${module}_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/${module}_test.c LIBS baton_base)
endforeach()
