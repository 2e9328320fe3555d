//! What CPU samples of a text come to, in words: the functions that most of them are in.

use std::collections::BTreeMap;

use spindoctor_model::stack::Profile;

/// Functions that are named.
const NAMED: usize = 3;
/// From this share of the samples on.
const LEAST: f64 = 0.02;

/// A sentence on the samples of a profile; none where it has no samples.
pub(crate) fn sentence(profile: &Profile) -> Option<String> {
    let samples = profile.samples();
    let mut counts: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
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
    (!named.is_empty()).then(|| format!("of the CPU samples {}", named.join(", ")))
}
