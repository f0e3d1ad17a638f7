#!/bin/sh
# Runs the protobuf-c generator for protoc and adds to its answer that it can take proto3 "optional":
# supported_features = 1, appended, as encoded messages merge by concatenation.
set -e
protoc-gen-c
printf '\020\001'
