# Run inside of gdb: every frame of every thread, one a line, tabs between: thread id, pc, kind, name.
import gdb

KINDS = {gdb.INLINE_FRAME: "inlined", gdb.TAILCALL_FRAME: "jumped"}

for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame is not None:
        kind = KINDS.get(frame.type(), "called")
        print("frame", thread.ptid[1], hex(frame.pc()), kind, frame.name() or "??", sep="\t")
        try:
            frame = frame.older()
        except gdb.error as error:
            print("broken", thread.ptid[1], error, sep="\t")
            break
