//! What CPU samples of a text come to, in words: the functions that most of them are in, and whether the kernel spins.

use std::collections::{BTreeMap, BTreeSet};

use spindoctor_model::stack::Profile;

/// Functions that are named.
const NAMED: usize = 3;
/// From this share of the samples on.
const LEAST: f64 = 0.02;

/// Sentences on the samples of a profile; none where it has no samples.
pub(crate) fn sentences(profile: &Profile) -> Vec<String> {
    let samples = profile.samples();
    let mut counts: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    let mut modules: BTreeSet<&str> = BTreeSet::new();
    for sample in samples {
        let stack = profile.stacks.get(sample.stack as usize);
        let frame = stack.and_then(|stack| profile.frames.get(*stack.frames.first()? as usize));
        let thread = profile.threads.get(sample.thread as usize).map_or("", |thread| thread.name.as_str());
        let Some(frame) = frame else { continue };
        let module = frame
            .module
            .and_then(|at| profile.modules.get(at as usize))
            .map_or("", |module| module.path.as_str());
        *counts.entry((thread, frame.name.as_str(), module)).or_default() += 1;
        let is_extra = frame.kernel && !module.contains("kernel") && !module.is_empty();
        if is_extra && modules.len() < NAMED {
            modules.insert(module);
        }
    }
    let mut most: Vec<_> = counts.into_iter().collect();
    most.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share = |count: u64| count as f64 / samples.len().max(1) as f64;
    let shown = most.iter().take(NAMED).filter(|(_, count)| share(*count) >= LEAST);
    let named: Vec<String> = shown
        .map(|((thread, function, module), count)| {
            let thread = if thread.is_empty() { String::new() } else { format!("{thread} in ") };
            let module = if module.is_empty() { String::new() } else { format!(" ({module})") };
            format!("{:.0} % {thread}{function}{module}", share(*count) * 100.0)
        })
        .collect();
    let mut sentences = Vec::new();
    if !named.is_empty() {
        sentences.push(format!("of the CPU samples {}", named.join(", ")));
    }
    if most
        .first()
        .is_some_and(|((_, function, _), count)| function.contains("spin_lock") && share(*count) >= 0.2)
    {
        let with = match modules.is_empty() {
            true => String::new(),
            false => format!(", with {} at work", modules.into_iter().collect::<Vec<_>>().join(", ")),
        };
        sentences.push(format!(
            "the kernel spins on a lock of its own{with}: no spin setting of the server changes that; look at what else takes this lock"
        ));
    }
    sentences
}
