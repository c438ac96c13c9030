// As CANN calls it.
#include "fake_ge.h"
