//! The backtrace that a server writes into its error log when it dies. The stack is that of the thread that died: it says nothing
//! of where time went, so it stands in the profile without having been seen at an instant.
//!
//! ```text
//! /usr/sbin/mysqld(my_print_stacktrace+0x3b)[0x8a3c5b]                     MySQL to 8.0
//! /usr/sbin/mysqld(THD::cleanup(bool)+0x2e) [0x1f3a4be]                    MySQL 8.0
//!  #0 0x1d3d9ff print_fatal_signal at ../../sql/signal_handler.cc:154      MySQL 8.4: a backtrace like eu-stack's
//! sql/signal_handler.cc:226(handle_fatal_signal)[0x555588d7465d]           MariaDB
//! server.dll!my_sigabrt_handler()[my_thr_init.c:449]                       MariaDB on Windows
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
    let Some(inside) = before.strip_suffix(')') else {
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
