# Fuzzing of api/wire.
baton_fuzz(wire_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/wire_fuzz.c LIBS baton_wire)
