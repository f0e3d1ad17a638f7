# Unit tests of controller/core and controller/store.
set(controller_world ${CMAKE_CURRENT_LIST_DIR}/controller_world.c ${CMAKE_CURRENT_LIST_DIR}/controller_played.c)
foreach(module holders fleet hostile sleep late rebuild rolls barrier undo requests wait agents staleness leases series canary checks trigger plan shown swarm)
  baton_test(controller_${module}_test
    SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_${module}_test.c ${controller_world}
    LIBS controller_store)
endforeach()

baton_test(lag_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/lag_test.c LIBS controller_core)
set(record_filler ${CMAKE_CURRENT_LIST_DIR}/record_filler.c)
baton_test(store_codec_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_codec_test.c ${record_filler} LIBS controller_store)
baton_test(store_archive_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_archive_test.c LIBS controller_store)
baton_test(store_audit_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_audit_test.c LIBS controller_store)
baton_test(store_etcd_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/store_etcd_test.c LIBS controller_store)
include(${CMAKE_CURRENT_LIST_DIR}/../conformance/store.cmake)
baton_test(controller_fleet_stats_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/controller_fleet_stats_test.c ${controller_world}
  LIBS controller_shell)
