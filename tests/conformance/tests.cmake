# Suites of contracts; engine.cmake is included with the engines' unit tests.
include(${CMAKE_CURRENT_LIST_DIR}/transport.cmake)
