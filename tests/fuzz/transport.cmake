# Fuzz targets of transport/model and transport/p2p.
baton_fuzz(safetensors_fuzz
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/safetensors_fuzz.c LIBS baton_transport_model)
baton_fuzz(manifest_fuzz
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/manifest_fuzz.c LIBS baton_transport_model)
baton_fuzz(p2p_fuzz
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/p2p_fuzz.c LIBS baton_p2p)
