// What check_plans.cpp may be told by the program that executes plans.
#pragma once

#include <random>
#include <string>

namespace cuda_compiled {

inline std::mt19937_64 order_bits;  // for the orders in which thread blocks and threads run
inline std::string case_name;       // for messages

}  // namespace cuda_compiled
