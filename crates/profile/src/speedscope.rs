//! speedscope's own format: <https://www.speedscope.app/file-format-schema.json>. One `sampled` profile for each
//! group, the heaviest first; weights are seconds of thread time, or of CPU time.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use super::counted::{Counted, Label, LabelKind};
use super::formats::subject;
use super::view::View;
use spindoctor_page::safe::{safe, safe_json};

/// Profiles in one file: more cannot be chosen from.
const MOST_GROUPS: usize = 200;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: String,
    exporter: String,
    active_profile_index: usize,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Serialize)]
struct Frame {
    name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: f64,
    end_value: f64,
    samples: Vec<Vec<usize>>,
    weights: Vec<f64>,
}

/// The profile as speedscope reads it.
pub fn render(view: &View<'_>) -> anyhow::Result<Vec<u8>> {
    let counted = view.counted();
    let mut groups: BTreeMap<&str, Vec<&Counted<'_>>> = BTreeMap::new();
    for stack in &counted {
        groups.entry(stack.labels[0].name.as_ref()).or_default().push(stack);
    }
    let weight = |stacks: &[&Counted<'_>]| stacks.iter().map(|stack| stack.count).sum::<u64>();
    let mut groups: Vec<(&str, Vec<&Counted<'_>>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, stacks)| std::cmp::Reverse(weight(stacks)));

    let mut frames = Frames::default();
    let each = view.seconds_each();
    let everything: Vec<&Counted<'_>> = counted.iter().collect();
    let mut profiles =
        vec![frames.profile(&everything, format!("all of {}", safe(subject(view.profile))), each)];
    if groups.len() > 1 {
        profiles.extend(
            groups.iter().take(MOST_GROUPS).map(|(name, stacks)| frames.profile(stacks, safe(name), each)),
        );
    }
    let json = serde_json::to_string(&File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: safe(subject(view.profile)),
        exporter: format!("spindoctor@{}", env!("CARGO_PKG_VERSION")),
        active_profile_index: 0,
        shared: Shared { frames: frames.list },
        profiles,
    })?;
    Ok(safe_json(&json).into_bytes())
}

/// The frames that all profiles of the file share.
#[derive(Default)]
struct Frames<'a> {
    list: Vec<Frame>,
    places: HashMap<Label<'a>, usize>,
}

impl<'a> Frames<'a> {
    /// Stacks as a profile; each observation stands for so many seconds.
    fn profile(&mut self, stacks: &[&Counted<'a>], name: String, seconds_each: f64) -> Profile {
        let samples =
            stacks.iter().map(|stack| stack.labels[1..].iter().map(|label| self.place(label)).collect());
        let samples = samples.collect();
        let weights: Vec<f64> = stacks.iter().map(|stack| stack.count as f64 * seconds_each).collect();
        Profile {
            r#type: "sampled",
            name,
            unit: "seconds",
            start_value: 0.0,
            end_value: weights.iter().sum(),
            samples,
            weights,
        }
    }

    fn place(&mut self, label: &Label<'a>) -> usize {
        if let Some(place) = self.places.get(label) {
            return *place;
        }
        self.list.push(Frame { name: shown(label) });
        self.places.insert(label.clone(), self.list.len() - 1);
        self.list.len() - 1
    }
}

fn shown(label: &Label<'_>) -> String {
    let name = safe(&label.name);
    match label.kind {
        LabelKind::Kernel => format!("{name} [kernel]"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    use crate::examples;
    use crate::view::Choice;

    /// What the schema demands of a file, and its page's importer of each profile.
    #[test]
    fn a_file_keeps_the_rules_of_its_schema() {
        for profile in [examples::busy(), examples::hostile()] {
            let view = View::new(&profile, &Choice::default()).unwrap();
            let file: Value = serde_json::from_slice(&render(&view).unwrap()).unwrap();
            assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
            let frames = file["shared"]["frames"].as_array().unwrap();
            assert!(frames.iter().all(|frame| frame["name"].is_string()));
            let profiles = file["profiles"].as_array().unwrap();
            assert!(profiles.len() > usize::from(view.thread_count() > 1));
            for profile in profiles {
                assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"seconds".into()));
                let samples = profile["samples"].as_array().unwrap();
                let weights = profile["weights"].as_array().unwrap();
                assert_eq!(samples.len(), weights.len());
                let places = samples.iter().flat_map(|sample| sample.as_array().unwrap());
                assert!(places.map(|at| at.as_u64().unwrap()).all(|at| at < frames.len() as u64));
                let sum: f64 = weights.iter().map(|weight| weight.as_f64().unwrap()).sum();
                let span = profile["endValue"].as_f64().unwrap() - profile["startValue"].as_f64().unwrap();
                assert!((span - sum).abs() < 1e-9);
            }
            let seconds = profiles[0]["endValue"].as_f64().unwrap();
            assert!((seconds - view.observations.len() as f64 / 10.0).abs() < 1e-9, "{seconds}");
        }
    }
}
