# Stores: one suite for all backends; what can befall etcd; fuzzing of etcd's answers.
find_package(PkgConfig REQUIRED)
pkg_check_modules(RIG_CURL REQUIRED IMPORTED_TARGET libcurl)
set(here ${CMAKE_CURRENT_LIST_DIR})
set(rig ${here}/etcd_rig.c ${here}/etcd_relay.c)
baton_plain_test(store_conformance LABEL conformance
  SOURCES ${here}/store_conformance.c ${here}/patience.c ${rig} LIBS controller_store PkgConfig::RIG_CURL Threads::Threads)
if(NOT BATON_FUZZ)
  set_tests_properties(store_conformance PROPERTIES TIMEOUT 900)
endif()
baton_plain_test(archive_conformance LABEL conformance
  SOURCES ${here}/archive_conformance.c ${here}/patience.c ${rig} ${here}/../unit/record_filler.c
  LIBS controller_store PkgConfig::RIG_CURL Threads::Threads)
if(NOT BATON_FUZZ)
  set_tests_properties(archive_conformance PROPERTIES TIMEOUT 900)
endif()
foreach(program etcd_faults etcd_follow etcd_leader etcd_members etcd_upkeep)
  baton_plain_test(${program} LABEL conformance
    SOURCES ${here}/${program}.c ${here}/etcd_bench.c ${here}/etcd_parts.c ${here}/patience.c ${rig} LIBS controller_store PkgConfig::RIG_CURL Threads::Threads)
  if(NOT BATON_FUZZ)
    set_tests_properties(${program} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
  endif()
endforeach()
baton_plain_test(etcd_leadership LABEL conformance
  SOURCES ${here}/etcd_leadership.c ${here}/etcd_bench.c ${here}/etcd_parts.c ${here}/patience.c ${rig} LIBS controller_shell PkgConfig::RIG_CURL Threads::Threads)
if(NOT BATON_FUZZ)
  set_tests_properties(etcd_leadership PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()
baton_fuzz(etcd_answer_fuzz SOURCES ${here}/../fuzz/etcd_answer_fuzz.c LIBS controller_store)
baton_fuzz(archive_fuzz SOURCES ${here}/../fuzz/archive_fuzz.c LIBS controller_store)
