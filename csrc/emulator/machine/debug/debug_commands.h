// The protocol of the debugger's socket, version 1. A command is a line of fields with tabs between: a number, a verb, its
// arguments.
// An answer is a line of JSON, {"reply": number, ...} or {"reply": number, "error": "..."}; events are lines, too: hello, stopped,
// continued (a signal came), placed (a breakpoint has places in code that is launched).
//   go                                     the program begins
//   detach                                 everybody goes on, for good
//   breakpoints (ID KIND NAME NUMBER CONDITION)...    all of them; KIND line, kernel or address; numbers in decimal;
//                                          CONDITION as a trace's filter, with workgroup and wave
//   faults 0|1 / entry                     stop on faults; stop at the next instruction of all
//   pause / continue / step GROUP WAVE instruction|in|over|out
//   waves                                  those that have begun and not ended
//   frames GROUP WAVE                      where it is
//   scalars GROUP WAVE                     s0 to s127 and what has no number
//   rows GROUP WAVE FIRST COUNT            of 512: v0, ... then a0, ...; 64 lanes each
//   lds GROUP ADDRESS COUNT / memory ADDRESS COUNT      hexadecimal bytes, as many as there are
//   code ADDRESS BEFORE COUNT              instructions from BEFORE before the one at ADDRESS
//   files                                  source files of what runs
#pragma once

#include <string>
#include <string_view>

namespace apb::emu {

std::string answer_command(std::string_view line);

}  // namespace apb::emu
