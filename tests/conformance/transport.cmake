# The transport suite: built-in backends, one as a user's shared object, and both through the fault hook.
set(conformance_dir ${CMAKE_CURRENT_LIST_DIR})
add_library(transport_fault_hook MODULE ${conformance_dir}/transport_fault_hook.c)
set_target_properties(transport_fault_hook PROPERTIES PREFIX "")
target_include_directories(transport_fault_hook SYSTEM PRIVATE ${JANSSON_INCLUDE_DIRS})
target_link_libraries(transport_fault_hook PRIVATE baton_transport baton_options ${JANSSON_LINK_LIBRARIES})
# Only the entry point leaves the module, also of what is linked into it.
target_link_options(transport_fault_hook PRIVATE -Wl,--exclude-libs,ALL)

if(NOT BATON_FUZZ)
  add_executable(transport_conformance
    ${conformance_dir}/transport_conformance.c ${conformance_dir}/transport_transfers.c
    ${conformance_dir}/transport_exports.c ${CMAKE_SOURCE_DIR}/tests/unit/checkpoint_maker.c)
  target_link_libraries(transport_conformance PRIVATE baton_transport baton_options)
  set(file_config "{\"directory\":\"@DIR@\"}")
  function(transport_conformance_row name backend config)
    add_test(NAME transport_conformance_${name} COMMAND transport_conformance ${backend} ${config})
    set_tests_properties(transport_conformance_${name} PROPERTIES LABELS conformance TIMEOUT 120)
  endfunction()
  transport_conformance_row(memory memory "{}")
  transport_conformance_row(file file ${file_config})
  transport_conformance_row(shared_object $<TARGET_FILE:baton_file_plugin> ${file_config})
  transport_conformance_row(ipc $<TARGET_FILE:baton_ipc> "{}")
  add_dependencies(transport_conformance baton_ipc)
  transport_conformance_row(hook_memory $<TARGET_FILE:transport_fault_hook>
    "{\"backend\":\"memory\",\"config\":{}}")
  transport_conformance_row(hook_file $<TARGET_FILE:transport_fault_hook>
    "{\"backend\":\"file\",\"config\":${file_config}}")
endif()
