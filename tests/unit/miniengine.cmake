# Unit tests of tests/miniengine.
foreach(module kernels kv guard weights tokenizer scheduler faults)
  baton_test(miniengine_${module}_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/miniengine_${module}_test.c LIBS miniengine_core)
endforeach()
