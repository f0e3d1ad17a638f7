# Fuzzing of the dashboard's bridge.
baton_fuzz(dashboard_fuzz SOURCES ${CMAKE_CURRENT_LIST_DIR}/dashboard_fuzz.c LIBS controller_dashboard)
