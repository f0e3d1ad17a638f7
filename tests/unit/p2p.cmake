# transport/capability and transport/p2p.
set(here ${CMAKE_CURRENT_LIST_DIR})
baton_test(capability_test SOURCES ${here}/capability_test.c LIBS baton_capability)
baton_test(p2p_test SOURCES ${here}/p2p_test.c ${here}/p2p_world.c ${here}/checkpoint_maker.c LIBS baton_p2p)
baton_test(p2p_chunks_test SOURCES ${here}/p2p_chunks_test.c ${here}/p2p_world.c ${here}/checkpoint_maker.c LIBS baton_p2p)
if(TARGET p2p_test)
  target_compile_definitions(p2p_test PRIVATE RPC_CERTS="${here}/rpc_certs.sh")
endif()
