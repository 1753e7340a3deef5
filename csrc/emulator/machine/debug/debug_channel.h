// The socket to whoever debugs: lines in both directions, commands from there, answers and events from here.
#pragma once

#include <atomic>
#include <mutex>
#include <string>

namespace apb::emu {

class DebugChannel {
 public:
  static DebugChannel& instance();

  // Connects at the first call, and returns when the other side has said what it wants to begin with. False: nobody is there, or not
  // any more; or this is a fork of the process that is debugged.
  bool open();
  void send(const std::string& line);  // its end is added
  void begin();                        // the command "go": open() returns

 private:
  void connect();
  void serve();

  std::mutex opening_, sending_;
  std::atomic<int> handle_{-1};
  std::atomic<int> process_{0};
  std::atomic<bool> begun_{false};
};

}  // namespace apb::emu
