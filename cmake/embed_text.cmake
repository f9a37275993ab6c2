# Text files as constants of the library, so that the program needs no files beside it. Included,
# this gives embed_text(); run as a script by what that adds to the build, it writes the source.

# Adds a constant std::string_view NAME, the files one after the other, to the target; HEADER
# declares it in namespace sigma1.
function(embed_text target header name)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE files)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${header} -DNAME=${name} "-DFILES=${files}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    COMMENT "Embedding ${name}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
  # One literal for each file: compilers limit their length.
  set(literals)
  foreach(file ${FILES})
    file(READ ${file} content)
    string(APPEND literals "\n    R\"embedded(${content})embedded\"")
  endforeach()
  file(WRITE ${OUTPUT} "#include \"${HEADER}\"\n\nnamespace sigma1 {\n"
       "constinit const std::string_view ${NAME} =${literals};\n}\n")
endif()
