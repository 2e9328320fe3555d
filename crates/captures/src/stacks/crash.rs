//! The backtrace that a server writes into its error log when it dies. The stack is that of the thread that died: it says nothing
//! of where time went, so it stands in the profile without having been seen at an instant.
//!
//! ```text
//! /usr/sbin/mysqld(my_print_stacktrace+0x3b)[0x8a3c5b]                     MySQL to 8.0
//! /usr/sbin/mysqld(THD::cleanup(bool)+0x2e) [0x1f3a4be]                    MySQL 8.0
//!  #0 0x1d3d9ff print_fatal_signal at ../../sql/signal_handler.cc:154      MySQL 8.4: a backtrace like eu-stack's
//! sql/signal_handler.cc:226(handle_fatal_signal)[0x555588d7465d]           MariaDB
//! server.dll!my_sigabrt_handler()[my_thr_init.c:449]                       MariaDB on Windows
//! 0x81a0705 handle_segfault + 805                                          what resolve_stack_dump makes of bare addresses
//! ```

use spindoctor_model::stack::StackSource;

use super::backtrace::{address, location};
use super::tables::{Place, Tables, Who};
use super::{CapturedStacks, name};

/// The backtraces of crashes, where a text has any.
pub(super) fn read(text: &str) -> Option<CapturedStacks> {
    let mut tables = Tables::new(StackSource::Ptrace);
    let (mut places, mut crashes, mut not_understood) = (Vec::new(), 0, 0);
    for line in text.lines().chain([""]) {
        if let Some(place) = place(line.trim()) {
            places.push(place);
            continue;
        }
        // A line alone that ends in brackets is something else.
        if places.len() >= 2 {
            tables.thread(&Who::default(), &places, None);
            crashes += 1;
        } else {
            not_understood += places.len();
        }
        places.clear();
        not_understood += usize::from(!line.trim().is_empty());
    }
    if crashes == 0 {
        return None;
    }
    let mut profile = tables.finish();
    profile.snapshots.clear();
    profile.observations.clear();
    Some(CapturedStacks {
        form: "crash backtrace",
        profile,
        threads: crashes,
        lines_not_understood: not_understood,
    })
}

fn place(line: &str) -> Option<Place> {
    if line.starts_with("0x") {
        return resolved(line);
    }
    let (before, bracket) = line.strip_suffix(']')?.rsplit_once('[')?;
    let before = before.trim();
    if let Some((module, call)) = before.split_once('!').filter(|(module, _)| !module.contains([' ', '('])) {
        let name = call.split('(').next().unwrap_or(call).to_owned();
        return Some(Place {
            name,
            module: Some(module.to_owned()),
            location: location(bracket),
            ..Place::default()
        });
    }
    let (address, rest) = address(bracket)?;
    if !rest.is_empty() {
        return None;
    }
    let Some(inside) = before.strip_suffix(')').or_else(|| is_cut(before).then_some(before)) else {
        let is_path = before.is_empty() || (before.contains('/') && !before.contains([' ', '\t', '(']));
        let module = (!before.is_empty()).then(|| before.to_owned());
        return is_path.then(|| Place { module, offset: Some(address), address, ..Place::default() });
    };
    let (file, call) = inside.split_once('(')?;
    if file.contains([' ', '\t', '"']) || file.is_empty() {
        return None;
    }
    let mut place = Place { address, ..Place::default() };
    match file.rsplit_once(':').map(|(_, line)| line.parse::<u32>()) {
        Some(Ok(0)) => {}
        Some(Ok(_)) => place.location = location(file),
        _ => place.module = Some(file.to_owned()),
    }
    if let Some(offset) = call.strip_prefix("+0x") {
        place.offset = u64::from_str_radix(offset, 16).ok();
    } else {
        place.name = name::without_offset(call).to_owned();
    }
    Some(place)
}

/// `mysqld(_Z16dispatch_command19enum_server_commandP3THDPcj+0xbb7`: a frame of which somebody lost the closing bracket.
fn is_cut(before: &str) -> bool {
    let call = before.split_once('(').filter(|(file, _)| !file.is_empty()).map(|(_, call)| call);
    let offset = call.and_then(|call| call.rsplit_once("+0x")).map(|(_, offset)| offset);
    offset.is_some_and(|offset| !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// `0x826014c ha_myisam::repair(THD*, bool) + 1900`; a page may have taken `<char>` for markup, and the line's end with it.
fn resolved(line: &str) -> Option<Place> {
    let (address, rest) = line.strip_prefix("0x")?.split_once(' ')?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let name = match rest.rsplit_once(" + ") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ if rest.contains('(') => rest,
        _ => return None,
    };
    let function = name.split('(').next().unwrap_or(name);
    let is_function = function.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && function.chars().all(|c| c.is_ascii_alphanumeric() || "_:~<>".contains(c));
    is_function.then(|| Place { name: name.to_owned(), address, ..Place::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let crash = read(text).unwrap();
        assert_eq!((crash.profile.observations.len(), crash.profile.snapshots.len()), (0, 0));
        let frames = crash.profile.stacks[0].frames.iter();
        frames.map(|&at| crash.profile.frames[at as usize].name.clone()).collect()
    }

    #[test]
    fn every_vendor_s_crash_is_read() {
        assert_eq!(
            names(
                "Attempting backtrace.\nstack_bottom = 7f2c8c0b6e40 thread_stack 0x40000\n\
                 /usr/sbin/mysqld(my_print_stacktrace+0x3b)[0xf1dabb]\n\
                 /usr/sbin/mysqld(_ZN11ha_innobase10index_readEPhPKhj16ha_rkey_function+0x1a)[0xf6ba1a]\n\
                 /usr/sbin/mysqld(THD::cleanup(bool)+0x2e) [0x1f3a4be]\n\
                 /lib64/libpthread.so.0(+0xf630)[0x7f2cb1a3e630]\n/usr/sbin/mysqld[0x8a3c5b]\n\n"
            ),
            [
                "my_print_stacktrace",
                "ha_innobase::index_read",
                "THD::cleanup",
                "libpthread.so.0+0xf630",
                "mysqld+0x8a3c5b"
            ]
        );
        assert_eq!(
            names(
                "mysqld(_Z10do_commandP3THD+0x24d)[0x6811b6]\nmysqld(_Z16dispatch_command19enum_server_commandP3THDPcj+0xbb7[0x67fdf8]\n\
                 mysqld(handle_one_connection+0x11c)[0x66e05e]\n"
            ),
            ["do_command", "dispatch_command", "handle_one_connection"]
        );
        assert_eq!(
            names(
                "mysys/stacktrace.c:212(my_print_stacktrace)[0x55558967a08f]\n\
                 ??:0(__assert_fail)[0x7f9c32e75e96]\n\
                 sql/item.cc:359(Item::fix_fields(THD*, Item**))[0x555588e06a94]\n"
            ),
            ["my_print_stacktrace", "__assert_fail", "Item::fix_fields"]
        );
        assert_eq!(
            names(
                "server.dll!my_sigabrt_handler()[my_thr_init.c:449]\nucrtbase.dll!raise()\nucrtbase.dll!raise()[a.c:1]\nucrtbase.dll!abort()[a.c:2]"
            ),
            ["raise", "abort"]
        );
    }

    #[test]
    fn what_resolve_stack_dump_prints_is_a_crash() {
        let text = "0x81a0705 handle_segfault + 805\n0x8407eef my_write + 671\n\
                    0x826014c ha_myisam::repair(THD*, st_mi_check_param&, bool) + 1900\n\
                    0x82106fd mysql_insert(THD*, TABLE_LIST*, List\n0x81bfae2 handle_one_connection + 2578\n";
        assert_eq!(
            names(text),
            ["handle_segfault", "my_write", "ha_myisam::repair", "mysql_insert", "handle_one_connection"]
        );
        for other in [
            "0x7f12 in row_purge (thr=0x1) at a.cc:12\n0x7f13 in main ()\n",
            "0x12 rw-p 4096 + 12\n0x13 r--p 8192 + x\n",
            "0xzz handle_segfault + 8\n0x é + 1\n",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn other_lines_that_end_in_brackets_are_no_crash() {
        for text in [
            "2024-01-01 [Note] something (happened) [0x12]\n2024-01-01 [Note] again (it) [0x13]\n",
            "a [b]\nc [d]\n",
            "/usr/sbin/mysqld(main+0x1)[0x12]\n",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
