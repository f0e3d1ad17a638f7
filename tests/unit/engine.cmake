# Tests of agent/engine: unit, conformance against miniengine, fuzzing of answers.
set(here ${CMAKE_CURRENT_LIST_DIR})
foreach(module answer guard process versions)
  baton_test(engine_${module}_test SOURCES ${here}/engine_${module}_test.c LIBS agent_engine)
endforeach()
foreach(module http vllm)
  baton_test(engine_${module}_test SOURCES ${here}/engine_${module}_test.c ${here}/engine_server.c LIBS agent_engine Threads::Threads)
endforeach()
baton_test(engine_sglang_test SOURCES ${here}/engine_sglang_test.c ${here}/sglang_landing_maker.c ${here}/checkpoint_maker.c
  ${here}/engine_server.c LIBS agent_engine baton_transport_model Threads::Threads)
baton_test(engine_sglang_landing_test SOURCES ${here}/engine_sglang_landing_test.c ${here}/sglang_landing_maker.c
  ${here}/checkpoint_maker.c LIBS agent_engine baton_transport_model)
baton_plain_test(engine_threads SOURCES ${here}/engine_threads.c ${here}/engine_server.c LIBS agent_engine Threads::Threads)
baton_fuzz(engine_answer_fuzz SOURCES ${here}/../fuzz/engine_answer_fuzz.c LIBS agent_engine)
baton_fuzz(sglang_answer_fuzz SOURCES ${here}/../fuzz/sglang_answer_fuzz.c LIBS agent_engine)
include(${here}/../conformance/engine.cmake)
