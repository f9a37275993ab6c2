// A graph for people and programs: text, Graphviz dot, JSON.
#pragma once

#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// What an analysis has to say about each input of each node: is_cut[node][input]. May be empty.
using CutMarks = std::vector<std::vector<bool>>;

// One line a node: name = op(inputs) shape α β, with | before an input that is a cut edge.
std::string to_text(const Graph& graph, const CutMarks& is_cut = {});
// Cut edges are drawn dashed, edges without gradient dotted.
std::string to_dot(const Graph& graph, const CutMarks& is_cut = {});
// {nodes: [{name, op, inputs, shape, alpha, beta: […], cut: […]}]}
std::string to_json(const Graph& graph, const CutMarks& is_cut = {});

}  // namespace sigma1
