# Unit tests of api/web and controller/dashboard; each web test starts a server of its own.
baton_test(web_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/web_test.c LIBS baton_web)
baton_test(dashboard_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/dashboard_test.c LIBS controller_dashboard)
include(${CMAKE_CURRENT_LIST_DIR}/../fuzz/dashboard.cmake)
