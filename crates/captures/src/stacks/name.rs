//! Names of functions as debuggers print them, made those of our own stacks: demangled, without arguments, template arguments,
//! return type, symbol version and the compiler's clones. Values of arguments never stay: they may be parts of statements.

use spindoctor_stacks::names::demangle::{demangle, shorten};

use super::tables::is_server;

/// The longest text that is looked at for one name. The longest names of a server take 10 KiB.
const LONGEST: usize = 16 << 10;

/// The longest name that is kept, bytes.
const LONGEST_SHORT: usize = 400;

/// What compilers put behind the name of a function that they have split or copied.
const CLONES: [&str; 9] =
    [".isra", ".part", ".constprop", ".cold", ".lto_priv", ".llvm", ".clone", ".resolver", ".localalias"];

/// What tools print where they know no name.
const NAMELESS: [&str; 7] = ["", "??", "n/a", "<unknown>", "[unknown]", "unknown", "???"];

/// A name in its short form; None where the tool knew none.
pub(super) fn short(raw: &str) -> Option<String> {
    let raw = raw.trim();
    if raw == "<signal handler called>" {
        return Some("[signal handler]".to_owned());
    }
    let raw = &raw[..raw.floor_char_boundary(LONGEST)];
    // An address without a name is none: bpftrace and the C library print it so.
    if NAMELESS.contains(&raw) || raw.starts_with("0x") {
        return None;
    }
    let named = without_offset(raw);
    // `mysqld+0x2a68b1d` is what a function without a name is called.
    if named != raw && (named.contains(".so") || is_server(named)) {
        return Some(raw.to_owned());
    }
    let raw = named;
    let is_mangled = raw.starts_with("_Z") || raw.starts_with("_R");
    let raw = if is_mangled || !raw.contains(['(', '<']) { before(raw, '@') } else { raw };
    let name = if is_mangled {
        demangle(raw).short
    } else if raw.contains(['(', '<']) {
        without_return_type(&shorten(raw)).to_owned()
    } else {
        without_return_type(raw).to_owned()
    };
    let clone = CLONES.iter().filter_map(|clone| name.find(clone)).filter(|&at| at > 0).min();
    let name = &name[..clone.unwrap_or(name.len())];
    let name = name.trim();
    let name = &name[..name.floor_char_boundary(LONGEST_SHORT)];
    (!NAMELESS.contains(&name)).then(|| name.to_owned())
}

/// `f+0x12` and `f + 12` without what stands behind the name.
pub(super) fn without_offset(name: &str) -> &str {
    if let Some((before, offset)) = name.rsplit_once('+') {
        let offset = offset.trim().split('/').next().unwrap_or_default();
        let digits = offset.strip_prefix("0x").unwrap_or(offset);
        let is_number = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_hexdigit());
        if is_number && !before.trim_end().is_empty() && !before.ends_with("operator") {
            return before.trim_end();
        }
    }
    name
}

fn before(text: &str, mark: char) -> &str {
    text.split(mark).next().unwrap_or(text)
}

/// `Item *make_item` is `make_item`: what stands before the last blank outside of brackets is a type, but for operators.
fn without_return_type(name: &str) -> &str {
    if name.starts_with(['[', '<']) {
        return name;
    }
    let end = name.find("operator").unwrap_or(name.len());
    let mut depth = 0_usize;
    let mut from = 0;
    for (at, character) in name[..end].char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 => from = at + 1,
            _ => {}
        }
    }
    name[from..].trim_start_matches(['*', '&'])
}

/// Where the name ends that a call begins with: `f (a=1) at x.cc:12` gives `f`. A blank before the bracket, outside of others,
/// begins arguments in gdb's form; `f(int) const` is a name with the types of its parameters.
pub(super) fn end_of_name(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'o' if text[at..].starts_with("operator") => {
                at += "operator".len();
                if text[at..].starts_with("()") {
                    at += 2;
                } else {
                    while at < bytes.len() && b"<>=!+-*/&|^%~[],".contains(&bytes[at]) {
                        at += 1;
                    }
                }
                continue;
            }
            b' ' if depth == 0
                && bytes.get(at + 1) == Some(&b'(')
                && !text[at + 1..].starts_with("(anonymous namespace)") =>
            {
                return at;
            }
            b'<' | b'(' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] != b'-' => depth = depth.saturating_sub(1),
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    text.find(" (").filter(|_| depth > 0).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_our_own_stacks() {
        for (raw, expected) in [
            ("poll", "poll"),
            ("pthread_cond_wait@@GLIBC_2.3.2", "pthread_cond_wait"),
            ("pthread_cond_clockwait@GLIBC_2.30", "pthread_cond_clockwait"),
            (
                "_ZN8MDL_wait10timed_waitEP17MDL_context_ownerP8timespecbPK14PSI_stage_info",
                "MDL_wait::timed_wait",
            ),
            ("_ZL17background_threadPv.isra.0", "background_thread"),
            ("dispatch_command(THD*, COM_DATA const*, enum_server_command)", "dispatch_command"),
            (
                "void Detached_thread::operator()<void (*)(unsigned long)>(void (*&&)(unsigned long))",
                "Detached_thread::operator()",
            ),
            (
                "TTASEventMutex<GenericPolicy>::wait(char const*, unsigned int, unsigned int)",
                "TTASEventMutex::wait",
            ),
            ("std::atomic<srv_shutdown_t>::load(std::memory_order) const", "std::atomic::load"),
            ("(anonymous namespace)::wait_for(int)", "(anonymous namespace)::wait_for"),
            ("Item *make_item", "make_item"),
            ("my_real_read.constprop.3", "my_real_read"),
            ("handle_fatal_signal+0x4c1", "handle_fatal_signal"),
            ("futex_wait_queue_me+0xc4/0x120", "futex_wait_queue_me"),
            ("operator new(unsigned long)", "operator new"),
            ("mysqld+0x2a68b1d", "mysqld+0x2a68b1d"),
        ] {
            assert_eq!(short(raw).as_deref(), Some(expected), "{raw}");
        }
        for raw in NAMELESS {
            assert_eq!(short(raw), None, "{raw}");
        }
    }

    #[test]
    fn arguments_begin_behind_the_name() {
        for (text, expected) in [
            ("poll () from /lib/libc.so.6", "poll"),
            (
                "dispatch_command (command=COM_QUERY, packet=0x7f \"SELECT ')'\") at sql_parse.cc:1",
                "dispatch_command",
            ),
            (
                "std::function<void (int)>::operator()(int) const (this=0x7f) at f:1",
                "std::function<void (int)>::operator()(int) const",
            ),
            ("(anonymous namespace)::f (x=1) at f:1", "(anonymous namespace)::f"),
            ("operator() (__closure=0x7f) at f:1", "operator()"),
            ("operator< <int> (a=1)", "operator< <int>"),
            ("do_command(THD*) ()", "do_command(THD*)"),
            ("std::__invoke<void (cut (x=1)", "std::__invoke<void"),
        ] {
            assert_eq!(&text[..end_of_name(text)], expected, "{text}");
        }
    }
}
