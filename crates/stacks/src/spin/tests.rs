use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::module::Modules;

/// Functions that lie one after another, each with the address where it begins.
fn decoder(architecture: Architecture, functions: &[(u64, &[u8])]) -> impl FnMut(&[u64]) -> bool + use<> {
    let functions: Vec<Function> = functions
        .iter()
        .map(|&(start, bytes)| Function { start, bytes: bytes.to_vec(), bounded: true })
        .collect();
    let mut decoder = SpinDecoder::new(architecture);
    move |stack| {
        decoder.spins(stack, &mut |address| functions.iter().find(|one| contains(one, address)).cloned())
    }
}

/// The offsets of those instructions of the first function that spin.
fn spinning(architecture: Architecture, functions: &[(u64, &[u8])]) -> Vec<u64> {
    let mut spins = decoder(architecture, functions);
    let (start, bytes) = functions[0];
    (0..bytes.len() as u64).filter(|offset| spins(&[start + offset])).collect()
}

/// `ut_delay(unsigned long)` of MySQL 9.7.4, as compiled by Debian's gcc 15.
const UT_DELAY: &[u8] = &[
    0xf3, 0x0f, 0x1e, 0xfa, // 00 endbr64
    0x48, 0x8d, 0x05, 0xc5, 0xbd, 0xae, 0x01, // 04 lea ut::spin_wait_pause_multiplier(%rip),%rax
    0x31, 0xd2, // 0b xor %edx,%edx
    0x48, 0x0f, 0xaf, 0x38, // 0d imul (%rax),%rdi
    0x48, 0x85, 0xff, // 11 test %rdi,%rdi
    0x74, 0x18, // 14 je 2e
    0x31, 0xc0, // 16 xor %eax,%eax
    0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, // 18 nopl
    0x48, 0x01, 0xc2, // 20 add %rax,%rdx
    0xf3, 0x90, // 23 pause
    0x48, 0x83, 0xc0, 0x01, // 25 add $1,%rax
    0x48, 0x39, 0xc7, // 29 cmp %rax,%rdi
    0x75, 0xf2, // 2c jne 20
    0x48, 0x89, 0xd0, // 2e mov %rdx,%rax
    0xc3, // 31 ret
];

#[test]
fn the_delay_of_a_latch_is_its_loop_and_nothing_else() {
    assert_eq!(spinning(Architecture::X86_64, &[(0x2a0_fab0, UT_DELAY)]), [0x20, 0x23, 0x25, 0x29, 0x2c]);
}

/// A latch: check, delay, count, again; then work that does not wait.
fn latch(delay: u64, start: u64) -> Vec<u8> {
    let mut code = vec![
        0x8b, 0x07, // 00 mov (%rdi),%eax
        0x85, 0xc0, // 02 test %eax,%eax
        0x7f, 0x0b, // 04 jg 11
    ];
    code.push(0xe8); // 06 call delay
    code.extend(((delay as i64 - (start as i64 + 0x0b)) as i32).to_le_bytes());
    code.extend([
        0x48, 0xff, 0xcb, // 0b dec %rbx
        0x75, 0xf0, // 0e jne 00
        0xc3, // 10 ret
        0x48, 0x01, 0xc2, // 11 add %rax,%rdx
        0x48, 0xff, 0xc9, // 14 dec %rcx
        0x75, 0xf8, // 17 jne 11
        0xc3, // 19 ret
    ]);
    code
}

#[test]
fn the_loop_around_a_call_of_a_delay_spins_and_the_work_after_it_does_not() {
    let code = latch(0x9000, 0x1000);
    let functions: &[(u64, &[u8])] = &[(0x1000, &code), (0x9000, UT_DELAY)];
    assert_eq!(spinning(Architecture::X86_64, functions), [0x00, 0x02, 0x04, 0x06, 0x0b, 0x0e]);
}

#[test]
fn the_beginning_of_a_delay_spins_when_a_spin_loop_called_it() {
    let code = latch(0x9000, 0x1000);
    let mut spins = decoder(Architecture::X86_64, &[(0x1000, &code), (0x9000, UT_DELAY)]);
    assert!(!spins(&[0x9004]));
    assert!(spins(&[0x9004, 0x100b, 0x5000]));
    assert!(!spins(&[0x9004, 0x1014]));
}

/// The commit spin in short: checks memory, counts down, one PAUSE. The turn that leaves goes elsewhere.
const COMMIT_SPIN: &[u8] = &[
    0xeb, 0x09, // 00 jmp 0b
    0x4d, 0x85, 0xf6, // 02 test %r14,%r14
    0x74, 0x0c, // 05 je 13
    0x49, 0xff, 0xce, // 07 dec %r14
    0x90, // 0a nop (replaced below)
    0x48, 0x8b, 0x03, // 0b mov (%rbx),%rax
    0x4c, 0x39, 0xe0, // 0e cmp %r12,%rax
    0x72, 0xef, // 11 jb 02
    0xc3, // 13 ret
];

#[test]
fn a_loop_without_a_pause_is_work_however_small() {
    assert!(spinning(Architecture::X86_64, &[(0x4000, COMMIT_SPIN)]).is_empty());
}

#[test]
fn a_loop_that_checks_memory_and_pauses_once_a_turn_spins() {
    let mut code = COMMIT_SPIN.to_vec();
    // dec %r14d (41 ff ce) is as long as dec %r14; a PAUSE takes the place of its last byte and of the NOP.
    code.splice(0x07..0x0b, [0xff, 0xce, 0xf3, 0x90]);
    assert_eq!(
        spinning(Architecture::X86_64, &[(0x4000, &code)]),
        [0x02, 0x05, 0x07, 0x09, 0x0b, 0x0e, 0x11]
    );
}

#[test]
fn work_that_is_found_does_not_spin_though_the_loop_pauses_when_there_is_none() {
    // for (;;) { if (!*queue) { pause; continue; } work; }
    let code: &[u8] = &[
        0x48, 0x8b, 0x03, // 00 mov (%rbx),%rax
        0x48, 0x85, 0xc0, // 03 test %rax,%rax
        0x75, 0x04, // 06 jne 0c
        0xf3, 0x90, // 08 pause
        0xeb, 0xf4, // 0a jmp 00
        0x48, 0x01, 0xc2, // 0c add %rax,%rdx
        0x48, 0x89, 0x13, // 0f mov %rdx,(%rbx)
        0xeb, 0xec, // 12 jmp 00
    ];
    assert_eq!(spinning(Architecture::X86_64, &[(0x4000, code)]), [0x00, 0x03, 0x06, 0x08, 0x0a]);
}

#[test]
fn a_pause_in_a_part_that_lies_elsewhere_belongs_to_the_loop() {
    // 1000: mov (%rdi),%eax; test %eax,%eax; jne 8000+1; ret       8000: nop; pause; jmp 1000
    let hot: &[u8] = &[0x8b, 0x07, 0x85, 0xc0, 0x0f, 0x85, 0xf7, 0x6f, 0x00, 0x00, 0xc3];
    let cold: &[u8] = &[0x90, 0xf3, 0x90, 0xe9, 0xf8, 0x8f, 0xff, 0xff];
    assert_eq!(spinning(Architecture::X86_64, &[(0x1000, hot), (0x8000, cold)]), [0x00, 0x02, 0x04]);
    assert_eq!(spinning(Architecture::X86_64, &[(0x8000, cold), (0x1000, hot)]), [0x01, 0x03]);
}

#[test]
fn a_delay_loop_inside_a_check_loop_makes_both_spin() {
    // MariaDB's way: for (;;) { if (!*lock) return; for (i = n; i; i--) pause; }
    let code: &[u8] = &[
        0x8b, 0x07, // 00 mov (%rdi),%eax
        0x85, 0xc0, // 02 test %eax,%eax
        0x74, 0x0a, // 04 je 10
        0x89, 0xf1, // 06 mov %esi,%ecx
        0xf3, 0x90, // 08 pause
        0xff, 0xc9, // 0a dec %ecx
        0x75, 0xfa, // 0c jne 08
        0xeb, 0xf0, // 0e jmp 00
        0xc3, // 10 ret
    ];
    assert_eq!(
        spinning(Architecture::X86_64, &[(0x4000, code)]),
        [0x00, 0x02, 0x04, 0x06, 0x08, 0x0a, 0x0c, 0x0e]
    );
}

#[test]
fn a_function_without_known_bounds_is_decoded_from_the_sampled_address_on() {
    let mut decoder = SpinDecoder::new(Architecture::X86_64);
    let mut rest = |address: u64| {
        let bytes = UT_DELAY.get(address as usize..)?.to_vec();
        Some(Function { start: address, bytes, bounded: false })
    };
    assert!(decoder.is_spin(0x25, &mut rest));
    assert!(!decoder.is_spin(0x2e, &mut rest));
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn isb_and_yield_mark_a_spin_loop_on_aarch64_and_wfe_does_not() {
    const ISB: u32 = 0xd503_3fdf;
    const YIELD: u32 = 0xd503_203f;
    const WFE: u32 = 0xd503_205f;
    for (hint, spin) in [(ISB, true), (YIELD, true), (WFE, false)] {
        let code = words(&[
            0xb940_0001, // 00 ldr w1, [x0]
            0x3400_0061, // 04 cbz w1, 10
            hint,        // 08
            0x17ff_fffd, // 0c b 00
            0xd65f_03c0, // 10 ret
        ]);
        let found = spinning(Architecture::Aarch64, &[(0x1000, &code)]);
        assert_eq!(found, if spin { vec![0x00, 0x04, 0x08, 0x0c] } else { vec![] }, "{hint:x}");
    }
}

#[test]
fn the_loop_around_a_call_of_a_delay_spins_on_aarch64() {
    let delay = words(&[
        0xd503_3fdf, // 00 isb
        0xf100_0400, // 04 subs x0, x0, #1
        0x54ff_ffc1, // 08 b.ne 00
        0xd65f_03c0, // 0c ret
    ]);
    let latch = words(&[
        0xb940_0261, // 00 ldr w1, [x19]
        0x3500_0061, // 04 cbnz w1, 10
        0x9400_0402, // 08 bl 1010
        0x17ff_fffd, // 0c b 00
        0xd65f_03c0, // 10 ret
    ]);
    let functions: &[(u64, &[u8])] = &[(0x1000, &latch), (0x2010, &delay)];
    assert_eq!(spinning(Architecture::Aarch64, functions), [0x00, 0x04, 0x08, 0x0c]);
    assert_eq!(spinning(Architecture::Aarch64, &[(0x2010, &delay)]), [0x00, 0x04, 0x08]);
}

/// `pthread_spin_lock` of glibc 2.36 on Debian 12, whole.
const PTHREAD_SPIN_LOCK: &[u8] = &[
    0xf0, 0xff, 0x0f, // 00 lock decl (%rdi)
    0x75, 0x0b, // 03 jne 10
    0x31, 0xc0, // 05 xor %eax,%eax
    0xc3, // 07 ret
    0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00, // 08 nopl
    0xf3, 0x90, // 10 pause
    0x83, 0x3f, 0x00, // 12 cmpl $0,(%rdi)
    0x7f, 0xe9, // 15 jg 00
    0xeb, 0xf7, // 17 jmp 10
];

#[test]
fn a_spin_lock_spins_while_it_waits_and_not_where_it_is_taken() {
    let found = spinning(Architecture::X86_64, &[(0x8ff70, PTHREAD_SPIN_LOCK)]);
    assert_eq!(found, [0x10, 0x12, 0x15, 0x17]);
}

/// An adaptive mutex: from `__pthread_mutex_lock` of glibc 2.36 on Debian 12, with a `ret` where it has the lock and where
/// it gives up spinning.
const ADAPTIVE_MUTEX: &[u8] = &[
    0x0f, 0x31, // 00 rdtsc
    0xba, 0x01, 0x00, 0x00, 0x00, // 02 mov $1,%edx
    0x31, 0xdb, // 07 xor %ebx,%ebx
    0x89, 0xc6, // 09 mov %eax,%esi
    0x8d, 0x42, 0xff, // 0b lea -1(%rdx),%eax
    0x21, 0xf0, // 0e and %esi,%eax
    0x01, 0xd0, // 10 add %edx,%eax
    0x01, 0xc3, // 12 add %eax,%ebx
    0x39, 0xd9, // 14 cmp %ebx,%ecx
    0x7e, 0x25, // 16 jle 3d
    0xf3, 0x90, // 18 pause
    0x83, 0xe8, 0x01, // 1a sub $1,%eax
    0x85, 0xc0, // 1d test %eax,%eax
    0x7f, 0xf7, // 1f jg 18
    0x83, 0xfa, 0x0f, // 21 cmp $0xf,%edx
    0x7f, 0x02, // 24 jg 28
    0x01, 0xd2, // 26 add %edx,%edx
    0x8b, 0x07, // 28 mov (%rdi),%eax
    0x85, 0xc0, // 2a test %eax,%eax
    0x75, 0xdd, // 2c jne 0b
    0x41, 0xb8, 0x01, 0x00, 0x00, 0x00, // 2e mov $1,%r8d
    0xf0, 0x44, 0x0f, 0xb1, 0x07, // 34 lock cmpxchg %r8d,(%rdi)
    0x75, 0xd0, // 39 jne 0b
    0x31, 0xc0, // 3b xor %eax,%eax
    0xc3, // 3d ret
];

#[test]
fn an_adaptive_mutex_spins_with_its_back_off_and_its_attempts() {
    let found = spinning(Architecture::X86_64, &[(0x8c563, ADAPTIVE_MUTEX)]);
    let whole_loop = [
        0x0b, 0x0e, 0x10, 0x12, 0x14, 0x16, 0x18, 0x1a, 0x1d, 0x1f, 0x21, 0x24, 0x26, 0x28, 0x2a, 0x2c, 0x2e,
        0x34, 0x39,
    ];
    assert_eq!(found, whole_loop);
}

#[test]
fn several_pauses_a_turn_are_one_loop() {
    // for (;;) { if (*lock == 0) return; pause; pause; }
    let code: &[u8] = &[
        0x83, 0x3f, 0x00, // 00 cmpl $0,(%rdi)
        0x74, 0x06, // 03 je 0b
        0xf3, 0x90, // 05 pause
        0xf3, 0x90, // 07 pause
        0xeb, 0xf5, // 09 jmp 00
        0xc3, // 0b ret
    ];
    assert_eq!(spinning(Architecture::X86_64, &[(0x4000, code)]), [0x00, 0x03, 0x05, 0x07, 0x09]);
}

#[test]
fn one_pause_before_work_that_does_not_come_back_is_no_loop() {
    let code: &[u8] = &[
        0xf3, 0x90, // 00 pause
        0x48, 0x01, 0xc2, // 02 add %rax,%rdx
        0x48, 0xff, 0xc9, // 05 dec %rcx
        0x75, 0xf8, // 08 jne 02
        0xc3, // 0a ret
    ];
    // The PAUSE itself, and the instruction after it, where the CPU says it is when the PAUSE ends.
    assert_eq!(spinning(Architecture::X86_64, &[(0x4000, code)]), [0x00, 0x02]);
}

#[test]
fn an_atomic_that_a_spin_loop_calls_spins_with_it_on_aarch64() {
    // Compiled for all cores, gcc calls `__aarch64_cas4_acq` for a compare-and-swap.
    let cas = words(&[
        0x8854_7c40 | 0xfc00, // 00 ldaxr w0, [x2]
        0x6b10_001f,          // 04 cmp w0, w16
        0x5400_0061,          // 08 b.ne 14
        0x8811_7c41,          // 0c stxr w17, w1, [x2]
        0x35ff_ff91,          // 10 cbnz w17, 00
        0xd65f_03c0,          // 14 ret
    ]);
    let lock = words(&[
        0x9400_0400, // 00 bl 1000
        0x3400_0060, // 04 cbz w0, 10
        0xd503_3fdf, // 08 isb
        0x17ff_fffd, // 0c b 00
        0xd65f_03c0, // 10 ret
    ]);
    let functions: &[(u64, &[u8])] = &[(0x1000, &lock), (0x2000, &cas)];
    assert_eq!(spinning(Architecture::Aarch64, functions), [0x00, 0x04, 0x08, 0x0c]);
    let mut spins = decoder(Architecture::Aarch64, functions);
    assert!(spins(&[0x200c, 0x1004]));
    // The same atomic, called by somebody who does not spin.
    assert!(!spins(&[0x200c, 0x1014]));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        at in any::<prop::sample::Index>(),
        start in any::<u64>(),
    ) {
        prop_assume!(!bytes.is_empty());
        let function = Function { start, bytes: bytes.clone(), bounded: true };
        let offset = at.index(bytes.len()) as u64;
        for architecture in [Architecture::X86_64, Architecture::Aarch64] {
            let mut decoder = SpinDecoder::new(architecture);
            let mut code = |address| contains(&function, address).then(|| function.clone());
            decoder.spins(&[start.wrapping_add(offset), start], &mut code);
        }
    }

    /// Code that is all branches and PAUSEs, so that graphs are dense.
    #[test]
    fn no_tangle_of_branches_makes_it_panic(offsets in proptest::collection::vec(any::<i8>(), 1..200)) {
        let bytes: Vec<u8> = offsets
            .iter()
            .flat_map(|&offset| if offset % 5 == 0 { [0xf3, 0x90] } else { [0x75, offset.cast_unsigned()] })
            .collect();
        let function = Function { start: 0x1000, bytes, bounded: true };
        let mut decoder = SpinDecoder::new(Architecture::X86_64);
        let mut code = |address| contains(&function, address).then(|| function.clone());
        let pause = offsets.iter().position(|offset| offset % 5 == 0);
        prop_assert!(pause.is_none_or(|at| decoder.is_spin(0x1000 + 2 * at as u64, &mut code)));
    }
}

#[test]
fn the_kernel_s_spin_locks_are_known_by_name_whatever_the_compiler_adds() {
    assert!(is_kernel_spin("native_queued_spin_lock_slowpath"));
    assert!(is_kernel_spin("native_queued_spin_lock_slowpath.part.0"));
    assert!(is_kernel_spin("rwsem_spin_on_owner"));
    // CentOS 6 and 7.
    assert!(is_kernel_spin("_spin_lock") && is_kernel_spin("_raw_qspin_lock"));
    assert!(!is_kernel_spin("_spin_unlock_irqrestore") && !is_kernel_spin("_raw_spin_lock"));
    assert!(!is_kernel_spin("_raw_spin_unlock_irqrestore"));
    assert!(!is_kernel_spin("do_syscall_64"));
}

/// Whether decoding sees a PAUSE or a call of a delay, by reading every function that is called or jumped to: as it is
/// defined.
fn may_spin_by_definition(decoder: &mut SpinDecoder, function: &Function, code: &mut CodeOf<'_>) -> bool {
    let mut parts = Vec::new();
    let mut look = |part: &Function, parts: &mut Vec<Function>| {
        let mut at = 0;
        while let Some(rest) = part.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let address = part.start.wrapping_add(at as u64);
            let Some(instruction) = instruction::decode(decoder.architecture, address, rest) else {
                at += 1;
                continue;
            };
            match instruction.flow {
                _ if instruction.pause => return true,
                Flow::Call(Some(target)) => {
                    let called = code.function(target).filter(|called| called.start == target);
                    if called.is_some_and(|called| called.bytes.len() <= 128)
                        && decoder.is_delay(target, &mut |address: u64| code.function(address))
                    {
                        return true;
                    }
                }
                Flow::Jump(target) | Flow::Branch(target) if !contains(part, target) => {
                    parts.extend(code.function(target).filter(|one| one.start != target && one.bounded));
                }
                _ => {}
            }
            at += instruction.len as usize;
        }
        false
    };
    look(function, &mut parts) || parts.into_iter().any(|part| look(&part, &mut Vec::new()))
}

/// A file's functions, read as a profile reads them, and by their bytes alone.
struct Counted<'a>(&'a mut Modules, usize);

impl CodeSource for Counted<'_> {
    fn function(&mut self, address: u64) -> Option<Function> {
        self.1 += 1;
        self.0.function(address)
    }

    fn bounds(&mut self, address: u64) -> Option<Range<u64>> {
        self.0.bounds(address)
    }
}

/// How many functions a file has that may spin, and how many in all: as many as by definition. At most `most_bytes` of each
/// part are looked at.
fn compared(file: &Path, most_bytes: u64) -> (usize, usize) {
    let mut modules = Modules::of_file(file).unwrap();
    let mut read = 0;
    let (mut decoder, mut other) =
        (SpinDecoder::new(Architecture::HOST), SpinDecoder::new(Architecture::HOST));
    let (mut found, mut all) = (0, 0);
    for (_, mut at) in modules.beginnings() {
        let end = at.saturating_add(most_bytes);
        while at < end && modules.place(at).is_some() {
            let Some(function) = modules.function(at).filter(|function| function.bounded) else {
                at += 1;
                continue;
            };
            let mut counted = Counted(&mut modules, read);
            let may_spin = decoder.may_spin(&function, &mut counted);
            read = counted.1;
            let defined = may_spin_by_definition(&mut other, &function, &mut modules);
            assert_eq!(may_spin, defined, "{}: {:#x}", file.display(), function.start);
            found += usize::from(may_spin);
            all += 1;
            at = at.max(function.start + function.bytes.len() as u64).max(at + 1);
        }
    }
    // Beside the small ones that are called, and parts that lie elsewhere.
    assert!(read < all, "{}: {read} functions were read for {all}", file.display());
    (found, all)
}

#[test]
fn which_functions_may_spin_is_known_without_reading_what_they_call() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().filter_map(|line| line.split_ascii_whitespace().nth(5));
    let libc = libc.map(Path::new).find(|path| path.to_string_lossy().contains("/libc.so"));
    let this = std::env::current_exe().unwrap();
    for file in [Some(this.as_path()), libc].into_iter().flatten() {
        let (found, all) = compared(file, 2 << 20);
        assert!(found > 0 && all > 1000, "{}: {found} of {all}", file.display());
    }
}

proptest! {
    #[test]
    fn one_decoder_finds_the_instructions_that_many_find(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        start in any::<u64>(),
    ) {
        for architecture in [Architecture::X86_64, Architecture::Aarch64] {
            let (mut expected, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                let address = start.wrapping_add(at as u64);
                let found = instruction::decode(architecture, address, &bytes[at..]);
                at += found.map_or(1, |instruction| instruction.len as usize);
                expected.extend(found);
            }
            let mut found = Vec::new();
            sweep(architecture, start, &bytes, &mut |instruction| {
                found.push(*instruction);
                true
            });
            prop_assert_eq!(found, expected);
        }
    }
}
