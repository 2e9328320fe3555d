//! What two sweeps were made with: conditions that differ, settings that only one server has, and what one of them does not say.
//! Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use spindoctor_model::number;

use crate::sweep::Conditions;

/// Two measurements of PAUSE on one machine that differ by less are the same: clocks of idle and of busy cores differ by as
/// much. Chosen, not derived.
const SAME_PAUSE: f64 = 0.1;

/// A condition that was not the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Which: `CPU`, `kernel`, `innodb_spin_wait_delay`.
    pub what: String,
    /// A's.
    pub a: String,
    /// B's.
    pub b: String,
}

/// Conditions that differ, and settings that only one of the two has. What either sweep changes itself is no condition.
pub(super) fn differences(
    a: &Conditions,
    b: &Conditions,
    swept: &dyn Fn(&str) -> bool,
) -> (Vec<Difference>, [Vec<String>; 2]) {
    let mut found = Vec::new();
    let mut differ = |what: &str, a: Option<String>, b: Option<String>| {
        if let (Some(a), Some(b)) = (a, b)
            && a != b
        {
            found.push(Difference { what: what.to_owned(), a, b });
        }
    };
    let of = |of: &dyn Fn(&Conditions) -> Option<String>| (of(a), of(b));
    let (one, two) = of(&|made| made.hardware.cpu_text());
    differ("CPU", one, two);
    let (one, two) = of(&|made| Some(number::counted(u64::from(made.hardware.cpus?), "CPU", "CPUs")));
    differ("CPUs of the server", one, two);
    if let (Some(one), Some(two)) = (&a.hardware.pause, &b.hardware.pause)
        && (one.ns / two.ns).ln().abs() >= SAME_PAUSE
    {
        differ("PAUSE", a.hardware.pause_text(), b.hardware.pause_text());
    }
    let (one, two) = of(&|made| made.hardware.kernel.clone());
    differ("kernel", one, two);
    // It has all of the above in one text; where that is known by itself, the rest of it is the memory.
    let is_known = a.hardware.cpu.is_some() && b.hardware.cpu.is_some();
    let is_named = ["CPU", "CPUs of the server", "kernel"];
    if !is_known || !found.iter().any(|difference| is_named.contains(&difference.what.as_str())) {
        let mut differ = |what: &str, a: &str, b: &str| {
            if a != b {
                found.push(Difference { what: what.to_owned(), a: a.to_owned(), b: b.to_owned() });
            }
        };
        differ("machine of the clients", &a.machine, &b.machine);
    }
    let quota = |made: &Conditions| {
        let quota = made.quota_cpus.or(made.hardware.quota_cpus);
        quota.map_or("none".to_owned(), |cpus| number::quantity(cpus, "CPUs"))
    };
    let seconds = |seconds: f64| number::duration(seconds);
    let others = [
        ("quota", quota(a), quota(b)),
        ("server", a.server.clone(), b.server.clone()),
        ("address", a.address.clone(), b.address.clone()),
        ("options", a.options.join(" "), b.options.join(" ")),
        ("warm-up", seconds(a.warmup_s), seconds(b.warmup_s)),
        ("measured time", seconds(a.measured_s), seconds(b.measured_s)),
    ];
    for (what, one, two) in others {
        if one != two && !swept(what) {
            found.push(Difference { what: what.to_owned(), a: one, b: two });
        }
    }
    let mut of_one: [Vec<String>; 2] = Default::default();
    if !a.settings.is_empty() && !b.settings.is_empty() {
        for (name, value) in &a.settings {
            match b.settings.get(name) {
                _ if swept(name) => {}
                None => of_one[0].push(name.clone()),
                Some(other) if other == value => {}
                Some(other) => {
                    found.push(Difference { what: name.clone(), a: value.clone(), b: other.clone() });
                }
            }
        }
        of_one[1] = missing(&b.settings, &a.settings, swept);
    }
    (found, of_one)
}

fn missing(
    of: &BTreeMap<String, String>,
    from: &BTreeMap<String, String>,
    swept: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    of.keys().filter(|name| !from.contains_key(*name) && !swept(name)).cloned().collect()
}

/// What cannot be compared because one of the two does not say it.
pub(super) fn what_is_unknown(letter: &str, made: &Conditions) -> Option<String> {
    let unknown: Vec<&str> = [
        (made.hardware.cpu.is_none(), "the CPU"),
        (made.hardware.pause.is_none(), "its PAUSE"),
        (made.hardware.kernel.is_none(), "the kernel"),
        (made.settings.is_empty(), "the settings"),
    ]
    .into_iter()
    .filter_map(|(is_unknown, what)| is_unknown.then_some(what))
    .collect();
    (!unknown.is_empty()).then(|| {
        format!(
            "{letter} does not say {} of its server: it was swept from another host, or by an older spindoctor",
            unknown.join(", ")
        )
    })
}
