//! pprof's protocol buffers, gzip'd: <https://github.com/google/pprof/blob/main/proto/profile.proto>.
//!
//! Each sample has its number of observations and the time they stand for, and labels that `pprof -tagfocus` and
//! `-tagroot` take: `thread`, `state`, `user`, `database`, `connection`, `digest`.

use std::collections::HashMap;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;
use spindoctor_model::stack::{Observation, Spin};

use super::formats::subject;
use super::view::{View, state_word};

/// The messages of profile.proto, as far as they are written; the numbers are the fields' tags there.
mod proto {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
        #[prost(int64, repeated, tag = "13")]
        pub comment: Vec<i64>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub memory_start: u64,
        #[prost(uint64, tag = "3")]
        pub memory_limit: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(int64, tag = "6")]
        pub build_id: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
        #[prost(bool, tag = "10")]
        pub has_inline_frames: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(uint64, tag = "3")]
        pub address: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
        #[prost(int64, tag = "2")]
        pub line: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
        #[prost(int64, tag = "4")]
        pub filename: i64,
    }
}

/// The profile as `pprof` reads it.
pub fn render(view: &View<'_>) -> anyhow::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(&message(view).encode_to_vec())?;
    Ok(gzip.finish()?)
}

fn message(view: &View<'_>) -> proto::Profile {
    let mut writer = Writer::new(view);
    let period_ns = (view.seconds_each() * 1e9) as i64;
    let time = writer.string(if view.on_cpu { "cpu" } else { "wall" });
    let (samples, count, nanoseconds) =
        (writer.string("samples"), writer.string("count"), writer.string("nanoseconds"));

    let mut counts: HashMap<Observation, i64> = HashMap::new();
    let mut order = Vec::new();
    for seen in &view.observations {
        // What makes two observations one sample: everything but when, and whether it had moved since the one before.
        let same = Observation { snapshot: 0, unmoved: false, ..*seen };
        *counts.entry(same).or_insert_with(|| {
            order.push(same);
            0
        }) += 1;
    }
    for seen in order {
        let sample = writer.sample(&seen, counts[&seen], period_ns);
        writer.profile.sample.push(sample);
    }

    let of = writer.string(subject(view.profile));
    let mut comment = vec![of];
    comment.extend(view.profile.notes.iter().map(|note| writer.string(note)));
    let period_type = proto::ValueType { r#type: time, unit: nanoseconds };
    proto::Profile {
        sample_type: vec![proto::ValueType { r#type: samples, unit: count }, period_type],
        time_nanos: i64::try_from(view.profile.start.as_nanosecond()).unwrap_or(0),
        duration_nanos: (view.profile.seconds * 1e9) as i64,
        period_type: Some(period_type),
        period: period_ns,
        comment,
        string_table: writer.strings,
        ..writer.profile
    }
}

/// The tables of the message as they grow: what is said twice is kept once.
struct Writer<'a> {
    view: &'a View<'a>,
    profile: proto::Profile,
    strings: Vec<String>,
    string_places: HashMap<String, i64>,
    /// By the frames that share an address: inlined ones, and the function they were inlined into.
    locations: HashMap<Vec<u32>, u64>,
    /// By the name of the function.
    functions: HashMap<(i64, i64), u64>,
}

impl<'a> Writer<'a> {
    fn new(view: &'a View<'a>) -> Self {
        let mut writer = Self {
            view,
            profile: proto::Profile::default(),
            strings: Vec::new(),
            string_places: HashMap::new(),
            locations: HashMap::new(),
            functions: HashMap::new(),
        };
        // The first string is empty by the format's definition; it stands for none.
        writer.string("");
        for (at, module) in view.profile.modules.iter().enumerate() {
            let inside = || view.profile.frames.iter().filter(|frame| frame.module == Some(at as u32));
            let (filename, build_id) =
                (writer.string(&module.path), writer.string(module.build_id.as_deref().unwrap_or_default()));
            writer.profile.mapping.push(proto::Mapping {
                id: at as u64 + 1,
                memory_start: 0,
                memory_limit: inside().map(|frame| frame.address.saturating_add(1)).max().unwrap_or(0),
                filename,
                build_id,
                has_functions: true,
                has_inline_frames: inside().any(|frame| frame.inlined),
            });
        }
        writer
    }

    fn string(&mut self, text: &str) -> i64 {
        if let Some(place) = self.string_places.get(text) {
            return *place;
        }
        let place = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.string_places.insert(text.to_owned(), place);
        place
    }

    fn sample(&mut self, seen: &Observation, count: i64, period_ns: i64) -> proto::Sample {
        let frames = &self.view.profile.stacks[seen.stack as usize].frames;
        let mut location_id = Vec::new();
        let mut together = Vec::new();
        for (at, frame) in frames.iter().enumerate() {
            together.push(*frame);
            let inlined = self.view.profile.frames[*frame as usize].inlined;
            // Inlined calls stand inside of the function that they were inlined into.
            if !inlined || at + 1 == frames.len() {
                location_id.push(self.location(std::mem::take(&mut together)));
            }
        }
        let profile = self.view.profile;
        let mut label = Vec::new();
        let mut text = |writer: &mut Self, key: &str, value: &str| {
            if !value.is_empty() {
                let (key, str) = (writer.string(key), writer.string(value));
                label.push(proto::Label { key, str, num: 0 });
            }
        };
        text(self, "thread", &profile.threads[seen.thread as usize].name);
        text(self, "state", state_word(seen.state));
        match seen.spin {
            Some(Spin::User) => text(self, "spin", "user"),
            Some(Spin::Kernel) => text(self, "spin", "kernel"),
            None => {}
        }
        let mut connection = None;
        if let Some(activity) = self.view.activity(seen) {
            text(self, "user", activity.user.as_deref().unwrap_or_default());
            text(self, "database", activity.database.as_deref().unwrap_or_default());
            text(self, "digest", activity.digest_text.as_deref().unwrap_or_default());
            connection = activity.connection_id;
        }
        let tid = i64::from(profile.threads[seen.thread as usize].tid);
        let numbers = [Some(("thread_id", tid)), connection.map(|id| ("connection", id as i64))];
        for (key, num) in numbers.into_iter().flatten() {
            let key = self.string(key);
            label.push(proto::Label { key, str: 0, num });
        }
        proto::Sample { location_id, value: vec![count, count.saturating_mul(period_ns)], label }
    }

    fn location(&mut self, frames: Vec<u32>) -> u64 {
        if let Some(id) = self.locations.get(&frames) {
            return *id;
        }
        let profile = self.view.profile;
        let line = frames
            .iter()
            .map(|at| {
                let frame = &profile.frames[*at as usize];
                let (file, line) = frame.location.as_ref().map_or(("", 0), |(file, line)| (file, *line));
                let function_id = self.function(
                    self.view.name(frame),
                    frame.full_name.as_deref().unwrap_or(&frame.name),
                    file,
                );
                proto::Line { function_id, line: i64::from(line) }
            })
            .collect();
        let outermost = frames.last().map(|at| &profile.frames[*at as usize]);
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(proto::Location {
            id,
            mapping_id: outermost.and_then(|frame| frame.module).map_or(0, |module| u64::from(module) + 1),
            address: outermost.map_or(0, |frame| frame.address),
            line,
        });
        self.locations.insert(frames, id);
        id
    }

    fn function(&mut self, name: &str, full_name: &str, file: &str) -> u64 {
        let (name, system_name, filename) = (self.string(name), self.string(full_name), self.string(file));
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((system_name, filename)).or_insert(next);
        if id == next {
            self.profile.function.push(proto::Function { id, name, system_name, filename });
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::Choice;

    #[test]
    fn every_id_leads_somewhere_and_no_observation_is_lost() {
        for profile in [examples::busy(), examples::hostile(), examples::recursive()] {
            let view = View::new(&profile, &Choice::default()).unwrap();
            let written = proto::Profile::decode(message(&view).encode_to_vec().as_slice()).unwrap();
            assert_eq!(written.string_table[0], "");
            let counted: i64 = written.sample.iter().map(|sample| sample.value[0]).sum();
            assert_eq!(counted, profile.observations.len() as i64);
            for sample in &written.sample {
                assert_eq!(sample.value.len(), written.sample_type.len());
                assert!(sample.location_id.iter().all(|id| (1..=written.location.len() as u64).contains(id)));
                let strings = 0..written.string_table.len() as i64;
                assert!(sample.label.iter().all(|l| strings.contains(&l.key) && strings.contains(&l.str)));
            }
            for location in &written.location {
                assert!(location.mapping_id <= written.mapping.len() as u64);
                assert!(
                    location
                        .line
                        .iter()
                        .all(|l| (1..=written.function.len() as u64).contains(&l.function_id))
                );
            }
        }
    }

    #[test]
    fn a_thread_that_has_moved_meanwhile_is_the_same_sample() {
        let mut profile = examples::busy();
        let samples = |profile: &spindoctor_model::Profile| {
            message(&View::new(profile, &Choice::default()).unwrap()).sample.len()
        };
        let before = samples(&profile);
        profile.observations.iter_mut().step_by(2).for_each(|seen| seen.unmoved = true);
        assert_eq!(samples(&profile), before);
    }

    #[test]
    fn an_inlined_call_shares_the_location_of_its_function() {
        let profile = examples::busy();
        let choice = Choice { on_cpu: true, ..Choice::default() };
        let written = message(&View::new(&profile, &choice).unwrap());
        let spinning = written.location.iter().find(|location| location.line.len() == 2).unwrap();
        let named = |line: &proto::Line| {
            let function = &written.function[line.function_id as usize - 1];
            written.string_table[function.name as usize].as_str()
        };
        assert_eq!(spinning.line.iter().map(named).collect::<Vec<_>>(), ["ut_delay", "log_write_up_to"]);
    }
}
