//! What `free` and the head of `top` print of the host's memory and of its swap space, in each form that they have had.
//!
//! ```text
//!              total       used       free     shared    buffers     cached
//! Mem:         32177      31850        326          0         84        289
//! -/+ buffers/cache:      31476        700
//! Swap:          511        261        250
//!
//! Mem:  32949816k total, 32613172k used,   336644k free,    83848k buffers
//! Swap:   524280k total,   267588k used,   256692k free,   295836k cached
//!
//! MiB Mem :  32177.5 total,    126.0 free,  31850.2 used,    200.9 buff/cache
//! MiB Swap:   4095.0 total,    105.0 free,   3990.0 used.     90.1 avail Mem
//! ```
//!
//! And what `/proc/meminfo` has of them.

use std::collections::BTreeMap;

use spindoctor_model::{LoggedTrouble, TroubleKind, number as shown};

use crate::amounts::bytes;
use crate::atop;
use crate::system::{MOST_WORDS, SystemText};

/// Memory that is available, from which on down the next allocation may find none. By judgement: what a page cache keeps for
/// itself, and what comes and goes with connections, is more.
const AVAILABLE_RATIO: f64 = 0.03;
/// Swap space in use that is worth a sentence: pages that nobody wants lie there at no cost, so it alone is no finding. By judgement.
const SWAPPED_RATIO: f64 = 0.5;
/// Memory that no program can have, from which on it is worth a sentence. By judgement: the kernel's own structures take a few percent.
const KEPT_RATIO: f64 = 0.15;

/// Amounts of one line by their names.
type Amounts<'t> = BTreeMap<&'t str, f64>;

/// Parts of the host's memory and of its swap space.
#[derive(Debug, Clone, Copy, Default)]
struct Ratios {
    available: Option<f64>,
    swapped: Option<f64>,
}

/// Says what is left. Where no memory is and much of what was in it lies in the swap space, that is what a cause rests on.
pub(crate) fn read(text: &str, found: &mut SystemText) {
    kept_elsewhere(text, found);
    let found_by = [
        ("free", of_free(text)),
        ("top", of_top(text)),
        ("/proc/meminfo", of_meminfo(text)),
        ("htop", of_htop(text)),
        ("atop", of_atop(text)),
    ];
    let of_tool = found_by.into_iter().find_map(|(source, ratios)| Some((source, ratios?)));
    let Some((source, ratios)) = of_tool else { return };
    let available = ratios.available.filter(|ratio| *ratio <= AVAILABLE_RATIO).map(shown::percent);
    let swapped = ratios.swapped.filter(|ratio| *ratio >= SWAPPED_RATIO).map(shown::percent);
    if let Some(available) = &available {
        found.add(source, None, format!("Of the host's memory {available} is available"));
    }
    if let Some(swapped) = &swapped {
        found.add(source, None, format!("{swapped} of the swap space is in use"));
    }
    if let (Some(available), Some(swapped)) = (available, swapped) {
        found.troubles.push(LoggedTrouble {
            kind: TroubleKind::Swapping,
            times: 1,
            line: format!("The host's memory is full: {available} of it is available, and {swapped} of the swap space is in use"),
            source: source.into(),
            ..LoggedTrouble::default()
        });
    }
}

fn ratio(part: f64, of: &Amounts<'_>) -> Option<f64> {
    of.get("total").filter(|total| **total > 0.0).map(|total| part / total)
}

/// What nobody uses, and what can be had without swapping: free pages, and those of files.
fn with_files(memory: &Amounts<'_>, cached_elsewhere: Option<f64>) -> Option<f64> {
    let of = |name: &str| memory.get(name).copied();
    let files = of("buff/cache").or_else(|| Some(of("buffers")? + of("cached").or(cached_elsewhere)?))?;
    Some(of("free")? + files)
}

fn of_free(text: &str) -> Option<Ratios> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("total "));
    let names: Vec<&str> = lines.next()?.split_whitespace().take(MOST_WORDS).collect();
    let mut lines = lines.map(str::trim_start).take(3);
    let row = |line: &str, label: &str| -> Option<Amounts<'_>> {
        let values = line.strip_prefix(label)?.split_whitespace().map(amount);
        names.iter().copied().zip(values).map(|(name, value)| Some((name, value?))).collect()
    };
    let memory = row(lines.next()?, "Mem:")?;
    let mut without_files = None;
    let mut swap = None;
    for line in lines {
        if let Some(rest) = line.strip_prefix("-/+ buffers/cache:") {
            without_files = rest.split_whitespace().nth(1).and_then(amount);
        } else if swap.is_none() {
            swap = row(line, "Swap:");
        }
    }
    let available = memory.get("available").copied().or(without_files).or_else(|| with_files(&memory, None));
    Some(Ratios {
        available: available.and_then(|available| ratio(available, &memory)),
        swapped: swap.and_then(|swap| ratio(*swap.get("used")?, &swap)),
    })
}

/// The last head of top in the text.
fn of_top(text: &str) -> Option<Ratios> {
    fn amounts<'t>(line: &'t str, label: &str) -> Option<Amounts<'t>> {
        const UNITS: [&str; 6] = ["KiB ", "MiB ", "GiB ", "TiB ", "PiB ", "EiB "];
        let line = line.trim_start();
        let line = UNITS.iter().find_map(|unit| line.strip_prefix(unit)).unwrap_or(line);
        let rest = line.strip_prefix(label)?.trim_start().strip_prefix(':')?;
        let words = rest.split_whitespace().take(MOST_WORDS);
        let words: Vec<&str> = words.map(|word| word.trim_end_matches([',', '.'])).collect();
        let pairs = words.windows(2).filter_map(|two| Some((two[1], amount(two[0])?)));
        Some(pairs.filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_lowercase())).collect())
    }
    let memory = text
        .lines()
        .rev()
        .find_map(|line| amounts(line, "Mem").filter(|memory| memory.contains_key("total")))?;
    let swap = text
        .lines()
        .rev()
        .find_map(|line| amounts(line, "Swap").filter(|swap| swap.contains_key("total")))
        .unwrap_or_default();
    let available = swap.get("avail").copied().or_else(|| with_files(&memory, swap.get("cached").copied()));
    Some(Ratios {
        available: available.and_then(|available| ratio(available, &memory)),
        swapped: swap.get("used").and_then(|used| ratio(*used, &swap)),
    })
}

/// The meters of `htop`, `Mem[||||7.41G/7.76G]`: what programs have, and all.
fn of_htop(text: &str) -> Option<Ratios> {
    let used = |name: &str| -> Option<f64> {
        let (_, value) = text.lines().rev().filter_map(atop::meter).find(|(meter, _)| *meter == name)?;
        let (used, total) = value.split_once('/')?;
        let total = bytes(total).filter(|total| *total > 0.0)?;
        Some(bytes(used)? / total)
    };
    Some(Ratios { available: Some((1.0 - used("Mem")?).max(0.0)), swapped: used("Swp") })
}

/// The last lines of `atop` on memory, `MEM | tot 31.2G | free 312.1M | cache 1.1G | ...` and `SWP | tot 2.0G | free 0.0M | ...`.
fn of_atop(text: &str) -> Option<Ratios> {
    let line = |label: &str| text.lines().rev().find(|line| atop::is_labelled(line, label));
    let amount = |line: &str, name: &str| bytes(atop::value(line, name)?);
    let memory = line("MEM")?;
    let total = amount(memory, "tot").filter(|total| *total > 0.0)?;
    let available: f64 = ["free", "cache", "buff"].iter().filter_map(|name| amount(memory, name)).sum();
    let swapped = line("SWP").and_then(|swap| {
        let total = amount(swap, "tot").filter(|total| *total > 0.0)?;
        Some(((total - amount(swap, "free")?) / total).max(0.0))
    });
    Some(Ratios { available: Some(available / total), swapped })
}

/// `/proc/meminfo`: `MemTotal:       65764440 kB`, the last in the text.
fn of_meminfo(text: &str) -> Option<Ratios> {
    let value = |name: &str| {
        let of_name = |line: &str| line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
        amount(text.lines().rev().find_map(of_name)?.trim().trim_end_matches(" kB"))
    };
    let positive = |name: &str| value(name).filter(|amount| *amount > 0.0);
    let total = positive("MemTotal")?;
    let computed = || Some(value("MemFree")? + value("Buffers")? + value("Cached")?);
    let free_swap = |all: f64| Some((all - value("SwapFree")?).max(0.0) / all);
    Some(Ratios {
        available: value("MemAvailable").or_else(computed).map(|available| available / total),
        swapped: positive("SwapTotal").and_then(free_swap),
    })
}

/// Says what `/proc/meminfo` shows of memory that no program can have: huge pages that nobody took, and what the kernel cannot give back.
fn kept_elsewhere(text: &str, found: &mut SystemText) {
    let value = |name: &str| {
        let value = |line: &str| line.trim_start().strip_prefix(name)?.strip_prefix(':').map(str::to_owned);
        amount(text.lines().rev().find_map(value)?.trim().trim_end_matches(" kB"))
    };
    let Some(total_kib) = value("MemTotal").filter(|kib| *kib > 0.0) else { return };
    let is_much = |kib: &f64| *kib >= KEPT_RATIO * total_kib;
    let unused = || {
        let pages = value("HugePages_Free")? - value("HugePages_Rsvd").unwrap_or(0.0);
        Some(pages * value("Hugepagesize")?)
    };
    if let Some(kib) = unused().filter(is_much) {
        let sentence = format!(
            "Of the host's memory {} are kept for huge pages, and nobody uses them (HugePages_Free): large_pages of the server takes some, and \
             a smaller vm.nr_hugepages gives them back",
            shown::bytes(kib * 1_024.0)
        );
        found.add("/proc/meminfo", None, sentence);
    }
    if let Some(kib) = value("SUnreclaim").filter(is_much) {
        let sentence = format!(
            "The kernel itself has {} of the host's memory, which it cannot give back (SUnreclaim): slabtop says for what",
            shown::bytes(kib * 1_024.0)
        );
        found.add("/proc/meminfo", None, sentence);
    }
}

/// The bytes of the host's memory, where a line has them with their unit.
pub(crate) fn total_bytes(text: &str) -> Option<f64> {
    /// How a line of these names the unit, and its bytes.
    const UNITS: [(&str, f64); 3] =
        [("KiB Mem", 1_024.0), ("MiB Mem", 1_048_576.0), ("GiB Mem", 1_073_741_824.0)];
    fn of_top(line: &str) -> Option<f64> {
        let (rest, unit_bytes) =
            UNITS.iter().find_map(|(begins, bytes)| Some((line.strip_prefix(begins)?, bytes)))?;
        let (number, _) = rest.trim_start().strip_prefix(':')?.split_once(" total")?;
        Some(amount(number.trim())? * unit_bytes)
    }
    fn with_unit(line: &str) -> Option<f64> {
        let word = line.strip_prefix("Mem:")?.split_whitespace().next()?;
        amount(word).filter(|_| word.ends_with(|c: char| c.is_ascii_alphabetic()))
    }
    let of_meminfo = |line: &str| {
        amount(line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?).map(|kib| kib * 1_024.0)
    };
    let mut lines = text.lines().map(str::trim_start);
    lines.find_map(|line| of_top(line).or_else(|| with_unit(line)).or_else(|| of_meminfo(line)))
}

/// `32011`, and with `-h` `31Gi`, `799Mi`, in any unit: only ratios are wanted.
fn amount(text: &str) -> Option<f64> {
    bytes(&text.replace(',', "."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system;

    #[test]
    fn memory_that_no_program_can_have_is_said() {
        let meminfo = |huge: u32, slab: u32| {
            format!(
                "MemTotal:       65764440 kB\nMemFree:        20412344 kB\nMemAvailable:   30412344 kB\nSUnreclaim:     {slab} kB\n\
                 HugePages_Total:   20480\nHugePages_Free:    {huge}\nHugePages_Rsvd:        0\nHugepagesize:       2048 kB\n"
            )
        };
        let says = |huge, slab| system::read(&meminfo(huge, slab)).says;
        let unused = says(20_480, 412_340);
        assert!(
            unused.len() == 1 && unused[0].starts_with("Of the host's memory 40 GiB are kept for huge pages"),
            "{unused:?}"
        );
        let slab = says(12, 20_971_520);
        assert!(slab.len() == 1 && slab[0].starts_with("The kernel itself has 20 GiB"), "{slab:?}");
        assert_eq!(says(12, 412_340), Vec::<String>::new());
    }

    const OLD_FREE: &str = "             total       used       free     shared    buffers     cached\n\
                            Mem:         16000      15900        100          0         50        200\n\
                            -/+ buffers/cache:      15650        350\n\
                            Swap:         2000       1300        700\n";
    const OLD_TOP: &str = "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 2.10, 1.33, 1.02\n\
                           Cpu(s):  0.1%us,  0.0%sy,  0.0%ni, 99.8%id,  0.0%wa,  0.0%hi,  0.0%si,  0.0%st\n\
                           Mem:  16000000k total, 15900000k used,   100000k free,    50000k buffers\n\
                           Swap:  2000000k total,  1300000k used,   700000k free,   200000k cached\n";
    const TOP: &str = "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 2.10, 1.33, 1.02\n\
                       %Cpu(s):  4.2 us,  4.9 sy,  0.0 ni,  90.6 id,  0.1 wa,  0.0 hi,  0.2 si,  0.0 st\n\
                       MiB Mem :  16000.0 total,    100.0 free,  15650.0 used,    250.0 buff/cache\n\
                       MiB Swap:   2000.0 total,    700.0 free,   1300.0 used.    350.0 avail Mem\n";

    #[test]
    fn each_form_says_what_is_left_and_that_it_is_nothing() {
        for text in [
            OLD_FREE,
            OLD_TOP,
            TOP,
            &TOP.replace("MiB Mem :", "KiB Mem:").replace("   350.0 avail Mem", "   99.0 cached Mem"),
        ] {
            let found = system::read(text);
            assert_eq!(
                found.says,
                ["Of the host's memory 2.2 % is available", "65 % of the swap space is in use"],
                "{text}"
            );
            assert_eq!(
                found.troubles.iter().map(|trouble| trouble.kind).collect::<Vec<_>>(),
                [TroubleKind::Swapping],
                "{text}"
            );
        }
    }

    #[test]
    fn a_host_that_has_memory_left_or_swapped_little_has_no_trouble() {
        let kinds = |text: &str| system::read(text).troubles.len();
        for text in [
            OLD_FREE.replace("     15650        350", "      9650       6350"),
            OLD_FREE.replace("1300        700", " 300       1700"),
            OLD_TOP.replace(" 200000k cached", "9200000k cached"),
            TOP.replace("350.0 avail", "5350.0 avail"),
            TOP.replace("2000.0 total,    700.0 free,   1300.0", "0.0 total,    0.0 free,   0.0"),
        ] {
            assert_eq!(kinds(&text), 0, "{text}");
        }
    }

    #[test]
    fn the_kernel_s_own_list_says_the_same() {
        let list = |available: &str, free_swap: u32| {
            format!(
                "MemTotal:       16000000 kB\nMemFree:          100000 kB\n{available}Buffers:           50000 kB\nCached:           200000 kB\n\
                 SwapCached:            0 kB\nSwapTotal:       2000000 kB\nSwapFree:       {free_swap:>8} kB\n"
            )
        };
        let says = ["Of the host's memory 2.2 % is available", "65 % of the swap space is in use"];
        assert_eq!(system::read(&list("", 700_000)).says, says);
        assert_eq!(system::read(&list("MemAvailable:     350000 kB\n", 700_000)).says, says);
        let calm = system::read(&list("MemAvailable:    9350000 kB\n", 1_900_000));
        assert_eq!(calm.says, Vec::<String>::new());
        let swapped = system::read(&list("MemAvailable:    9350000 kB\n", 100_000));
        assert_eq!(
            (swapped.says, swapped.troubles),
            (vec!["95 % of the swap space is in use".to_owned()], vec![])
        );
    }

    #[test]
    fn memory_that_is_left_and_swap_in_use_are_said() {
        let free = "              total        used        free      shared  buff/cache   available\n\
                    Mem:          32011       31211         201           3         599         210\n\
                    Swap:          8191        8100          91\n";
        assert_eq!(
            system::read(free).says,
            ["Of the host's memory 0.7 % is available", "99 % of the swap space is in use"]
        );
        let calm = "               total        used        free      shared  buff/cache   available\n\
                    Mem:            31Gi       3.2Gi       201Mi       3.0Mi        28Gi        27Gi\n\
                    Swap:             0B          0B          0B\n";
        assert_eq!(system::read(calm).says, Vec::<String>::new());
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)(total used free\n|Mem: |Swap: |MiB |-/\\+ buffers/cache: |[0-9.,k ]|total|.){0,60}") {
            read(&text, &mut SystemText::default());
        }
    }
}
