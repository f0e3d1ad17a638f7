# Unit tests of controller/shell: a real controller in a thread, over the loopback.
baton_test(controller_election_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_election_test.c LIBS controller_shell)
baton_test(controller_prometheus_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_prometheus_test.c LIBS controller_shell)
baton_test(controller_shell_report_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_shell_report_test.c LIBS controller_shell)
baton_test(controller_rates_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_rates_test.c LIBS controller_shell)
baton_test(controller_access_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_access_test.c LIBS controller_shell)
baton_test(controller_config_leadership_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_config_leadership_test.c LIBS controller_shell)
baton_test(controller_config_access_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_config_access_test.c LIBS controller_shell)
set(controller_shell_fixture ${CMAKE_CURRENT_LIST_DIR}/controller_shell_fixture.c)
baton_test(controller_shell_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_shell_test.c ${controller_shell_fixture} LIBS controller_shell)
baton_test(controller_audit_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_audit_test.c ${controller_shell_fixture} LIBS controller_shell)
baton_test(controller_shell_watch_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_shell_watch_test.c ${controller_shell_fixture} LIBS controller_shell)
baton_test(controller_shell_endpoints_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_shell_endpoints_test.c ${controller_shell_fixture} LIBS controller_shell)
