# Unit tests of api/client and of the agent's local socket.
if(TARGET baton_client)
  set(local_server_sources
    ${CMAKE_SOURCE_DIR}/agent/shell/local_server.c ${CMAKE_SOURCE_DIR}/agent/shell/local_session.c
    ${CMAKE_CURRENT_LIST_DIR}/local_recorder.c)
  baton_test(client_protocol_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/client_protocol_test.c LIBS baton_client baton_base)
  baton_test(client_publish_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/client_publish_test.c ${local_server_sources}
    LIBS baton_client baton_base)
  baton_test(local_server_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/local_server_test.c ${local_server_sources}
    LIBS baton_client baton_base)
  baton_plain_test(local_threads_check
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/local_threads_check.c ${local_server_sources}
    LIBS baton_client baton_base)
  baton_fuzz(local_protocol_fuzz
    SOURCES ${CMAKE_SOURCE_DIR}/tests/fuzz/local_protocol_fuzz.c LIBS baton_client baton_base)
  if(BATON_PRESET STREQUAL "release")
    add_test(NAME client_abi COMMAND ${CMAKE_CURRENT_LIST_DIR}/client_abi.sh
      $<TARGET_FILE:baton_shared> ${CMAKE_SOURCE_DIR}/api/client/baton.h)
    set_tests_properties(client_abi PROPERTIES LABELS unit TIMEOUT 30)
    add_executable(local_recorder_main
      ${CMAKE_CURRENT_LIST_DIR}/local_recorder_main.c ${local_server_sources})
    target_link_libraries(local_recorder_main PRIVATE baton_client baton_base baton_options)
    find_program(BATON_PYTHON NAMES python3 REQUIRED)
    add_test(NAME publisher_py COMMAND ${BATON_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/publisher_test.py
      $<TARGET_FILE:local_recorder_main> $<TARGET_FILE:baton_shared> ${CMAKE_SOURCE_DIR}/api/python)
    set_tests_properties(publisher_py PROPERTIES LABELS unit TIMEOUT 120)
    add_test(NAME rollout_py COMMAND ${BATON_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/rollout_test.py
      ${CMAKE_SOURCE_DIR}/api/python)
    set_tests_properties(rollout_py PROPERTIES LABELS unit TIMEOUT 240)
  endif()
endif()
