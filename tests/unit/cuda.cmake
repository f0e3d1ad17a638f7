# Tests of transport/cuda that need no GPU.
baton_test(xxh3_test SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/xxh3_test.c LIBS baton_transport_pure)
baton_test(cuda_boxes_test
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/cuda_boxes_test.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/box_copies.c
  LIBS baton_cuda_host)
baton_test(cuda_open_test SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/cuda_open_test.c LIBS baton_cuda_host)
if(TARGET cuda_open_test)
  target_compile_definitions(cuda_open_test PRIVATE BATON_OTHER_PLUGIN="$<TARGET_FILE:baton_file_plugin>")
  add_dependencies(cuda_open_test baton_file_plugin)
  if(TARGET baton_cuda)
    target_compile_definitions(cuda_open_test PRIVATE BATON_CUDA_PLUGIN="$<TARGET_FILE:baton_cuda>")
    add_dependencies(cuda_open_test baton_cuda)
  endif()
endif()

# Backend "ipc", between processes.
baton_test(ipc_test
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/ipc_test.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/checkpoint_maker.c
  LIBS baton_transport)
if(TARGET ipc_test)
  target_compile_definitions(ipc_test PRIVATE BATON_IPC_PLUGIN="$<TARGET_FILE:baton_ipc>")
  add_dependencies(ipc_test baton_ipc)
  if(TARGET baton_cuda)
    target_compile_definitions(ipc_test PRIVATE BATON_CUDA_PLUGIN="$<TARGET_FILE:baton_cuda>")
    add_dependencies(ipc_test baton_cuda)
  endif()
endif()

# Backend "nccl", where it is built.
if(TARGET baton_nccl)
  baton_test(nccl_test SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/nccl_test.c LIBS baton_transport)
  if(TARGET nccl_test)
    target_compile_definitions(nccl_test PRIVATE
      BATON_NCCL_PLUGIN="$<TARGET_FILE:baton_nccl>" BATON_CUDA_PLUGIN="$<TARGET_FILE:baton_cuda>")
    add_dependencies(nccl_test baton_nccl baton_cuda)
  endif()
endif()
