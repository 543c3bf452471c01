#include "kernels/api/table.hpp"
