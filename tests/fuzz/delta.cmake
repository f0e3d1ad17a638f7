# Fuzz target of transport/delta.
baton_fuzz(delta_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/delta_fuzz.c LIBS baton_transport_delta)
