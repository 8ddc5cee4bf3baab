# Commands for going through a recording with gdb: source this file after attaching to tickback.
# gdb keeps registers until the machine runs, so whatever moves the machine by `monitor` must flush them.

define tb-flush
  maintenance flush register-cache
  x/i $pc
end
document tb-flush
Forget the registers that gdb holds, and show the instruction that is next.
end

define tb-when
  monitor when
end
document tb-when
Show where the machine stands: icount, virtual time, hart, instruction.
end

define tb-goto
  if $argc == 1
    monitor goto $arg0
    tb-flush
  else
    echo usage: tb-goto N|end|begin|50%\n
  end
end
document tb-goto
Go to a position of history: tb-goto 1_000_000, tb-goto 1e6, tb-goto 50%, tb-goto end.
end

define tb-back
  if $argc == 1
    monitor back $arg0
    tb-flush
  else
    echo usage: tb-back N\n
  end
end
document tb-back
Go N steps back, whichever hart made them.
end

define tb-last-write
  if $argc == 1
    eval "monitor last-write %#lx %d", (unsigned long)&($arg0), (int)sizeof($arg0)
  else
    if $argc == 2
      eval "monitor last-write %#lx %d", (unsigned long)($arg0), (int)($arg1)
    else
      echo usage: tb-last-write VARIABLE, or tb-last-write ADDRESS LENGTH\n
    end
  end
end
document tb-last-write
Find the last write before here: to a variable, or to LENGTH bytes at ADDRESS.
The machine stays where it is; tb-goto with the icount shown goes there.
end

define tb-events
  if $argc == 0
    monitor events
  end
  if $argc == 1
    monitor events $arg0
  end
  if $argc == 2
    monitor events $arg0 $arg1
  end
end
document tb-events
Show the recording's events around here, or tb-events FROM [TO].
end

define tb-snapshots
  monitor snapshots
end
document tb-snapshots
Show which positions are saved, on disk and in memory.
end

define tb-phys
  if $argc == 1
    monitor phys $arg0
    maintenance flush dcache
  else
    echo usage: tb-phys on|off\n
  end
end
document tb-phys
Take memory addresses as physical (on) or as the selected hart sees them (off).
end
