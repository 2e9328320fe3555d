//! What `perf script` prints: a line for the sample, a line for each frame, innermost first.
//!
//! ```text
//! mysqld 12345/12399 [003] 123456.789012:     250000 cycles:ppp:
//!         ffffffff81234567 native_queued_spin_lock_slowpath+0x1a5 ([kernel.kallsyms])
//!                   a8f8b2 row_search_mvcc+0x32 (/usr/sbin/mysqld)
//! ```

use spindoctor_model::stack::StackSource;

use super::tables::{Place, Tables, Who, is_server};
use super::{CapturedStacks, name, state};

/// Samples of one text that are read: the standard error of a share is then a third of a percentage point at most.
const MOST_SAMPLES: usize = 20_000;

/// Samples, where a text is that.
pub(super) fn read_script(text: &str) -> Option<CapturedStacks> {
    let mut samples: Vec<(Who, Vec<Place>)> = Vec::new();
    let (mut not_understood, mut has_frames, mut is_cut) = (0, false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let Some(place) = frame(trimmed).filter(|_| !samples.is_empty()) {
            has_frames = true;
            if let Some((_, places)) = samples.last_mut() {
                places.push(place);
            }
        } else if let Some((who, first)) = header(trimmed) {
            if samples.len() >= MOST_SAMPLES {
                is_cut = true;
                break;
            }
            has_frames |= first.is_some();
            samples.push((who, first.into_iter().collect()));
        } else {
            not_understood += 1;
        }
    }
    samples.retain(|(_, places)| !places.is_empty());
    if !has_frames || samples.is_empty() {
        return None;
    }
    let (server, other): (Vec<_>, Vec<_>) =
        samples.into_iter().partition(|(who, places)| is_of_server(who, places) || spins_in_kernel(places));
    let mut tables = Tables::new(StackSource::Cpu);
    let chosen = if server.is_empty() { &other } else { &server };
    for (who, places) in chosen {
        tables.samples(1, who, places);
    }
    if !server.is_empty() && !other.is_empty() {
        let note = format!("{} of {} samples are of other programs", other.len(), server.len() + other.len());
        tables.profile.notes.push(note);
    }
    if is_cut {
        tables.profile.notes.push(format!("only the first {MOST_SAMPLES} samples are read"));
    }
    let threads = tables.profile.threads.len();
    Some(CapturedStacks {
        form: "perf script",
        profile: tables.finish(),
        threads,
        lines_not_understood: not_understood,
    })
}

/// Whether a sample spins in the kernel: what takes the same locks as the server counts, whichever program it is.
fn spins_in_kernel(places: &[Place]) -> bool {
    let innermost = places.first().filter(|place| place.kernel);
    innermost.and_then(|place| name::short(&place.name)).and_then(|name| state::spin(&name, true)).is_some()
}

/// Whether a sample is of a database server: by its thread's name, or by the program that it lies in.
fn is_of_server(who: &Who, places: &[Place]) -> bool {
    let of_module =
        |place: &Place| place.module.as_deref().is_some_and(|path| is_server(super::tables::base_name(path)));
    is_server_thread(&who.name) || places.iter().any(of_module)
}

/// The names of the servers' threads, as the kernel knows them (MySQL since 8.0.26 names all).
pub(crate) fn is_server_thread(name: &str) -> bool {
    let begins = [
        "ib_",
        "xpl_",
        "my-",
        "rpl_",
        "evt_",
        "gtid_zip",
        "sig_handler",
        "con_sockets",
        "parser_srv",
        "ibuf",
        "tp_",
        "pxc",
    ];
    is_server(name)
        || name == "connection"
        || name == "one_connection"
        || begins.iter().any(|begin| name.starts_with(begin))
}

/// `comm pid[/tid] [cpu] time: [period] event:`, and the frame itself where no call graph was recorded.
fn header(line: &str) -> Option<(Who, Option<Place>)> {
    let tokens: Vec<&str> = line.split_whitespace().take(12).collect();
    let time = tokens.iter().position(|token| is_time(token))?;
    let mut end = time;
    while end > 0 && tokens[end - 1].starts_with('[') {
        end -= 1;
    }
    let ids = tokens.get(end.checked_sub(1)?)?;
    let tid = ids.rsplit('/').next()?.parse().ok()?;
    let name = tokens[..end - 1].join(" ").chars().take(64).collect::<String>();
    if name.is_empty() {
        return None;
    }
    let event = tokens[time + 1..].iter().position(|token| token.ends_with(':'))?;
    // Behind the event a frame may stand, in the same form as in a line of its own.
    let event_text = tokens[time + 1 + event];
    let behind = line.find(event_text).map(|at| line[at + event_text.len()..].trim());
    Some((Who { tid, name, pointer: None }, behind.and_then(frame)))
}

/// `123456.789012:`
fn is_time(token: &str) -> bool {
    let Some((seconds, fraction)) = token.strip_suffix(':').and_then(|token| token.split_once('.')) else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(seconds) && digits(fraction) && fraction.len() >= 3
}

/// `ffffffff81234567 native_queued_spin_lock_slowpath+0x1a5 ([kernel.kallsyms])`
fn frame(line: &str) -> Option<Place> {
    let (address, rest) = line.split_once([' ', '\t'])?;
    let address = u64::from_str_radix(address, 16).ok().filter(|_| address.len() >= 2)?;
    let (name, module) = rest.trim().strip_suffix(')')?.rsplit_once('(')?;
    let name = name.trim();
    if name.is_empty() && module != "inlined" {
        return None;
    }
    let name = match name.rsplit_once('+') {
        Some((name, offset)) if offset.starts_with("0x") => name,
        _ => name,
    };
    let inlined = module == "inlined";
    Some(Place {
        name: name.to_owned(),
        kernel: is_kernel(module),
        module: (!inlined && module != "[unknown]").then(|| module.to_owned()),
        address,
        inlined,
        ..Place::default()
    })
}

/// `[kernel.kallsyms]`, `[zfs]`, `/lib/modules/5.4/kernel/zfs.ko`.
pub(super) fn is_kernel(module: &str) -> bool {
    let of_process = ["[unknown]", "[vdso]", "[heap]", "[stack]", "[vsyscall]", "[anon]"];
    let is_named = module.starts_with('[') && !of_process.contains(&module) && !module.starts_with("[stack");
    is_named || module.contains(".ko") || module.contains("vmlinux")
}

#[cfg(test)]
mod tests {
    use spindoctor_model::stack::Spin;

    use super::*;

    const SCRIPT: &str = "\
# captured on: Tue Mar  5 10:11:12 2024
connection 12345/12399 [003] 123456.789012:     250000 cycles:ppp:
\tffffffff81234567 native_queued_spin_lock_slowpath+0x1a5 ([kernel.kallsyms])
\tffffffffc0567890 dbuf_read+0x10 ([zfs])
\t          a8f8b2 row_search_mvcc(unsigned char*, page_cur_mode_t)+0x32 (/usr/sbin/mysqld)
\t          a8f8b2 [unknown] (/usr/sbin/mysqld)

          swapper     0 [000] 123456.790000:     250000 cycles:
\tffffffff81000000 intel_idle+0x1 ([kernel.kallsyms])

mysqld  4711 123456.9: 1 cpu-clock:pppH:      7f001234 ut_delay+0x1 (/usr/sbin/mysqld)
mysqld  4711 123456.900: 1 cpu-clock:pppH:      7f001234 ut_delay+0x1 (/usr/sbin/mysqld)
";

    #[test]
    fn samples_are_read_with_their_frames_and_those_of_others_are_left_out() {
        let read = read_script(SCRIPT).unwrap();
        assert_eq!((read.threads, read.lines_not_understood), (2, 1));
        let profile = &read.profile;
        let spins: Vec<_> = profile.samples().iter().map(|sample| sample.spin).collect();
        assert_eq!(spins, [Some(Spin::Kernel), Some(Spin::User)]);
        let names: Vec<&str> = profile.frames.iter().map(|frame| frame.name.as_str()).collect();
        assert_eq!(
            names[..4],
            ["native_queued_spin_lock_slowpath", "dbuf_read", "row_search_mvcc", "[unknown]"]
        );
        assert!(profile.frames[1].kernel && !profile.frames[2].kernel);
        assert_eq!(profile.threads[0].tid, 12399);
        assert_eq!(profile.notes, ["1 of 3 samples are of other programs"]);
    }
}
