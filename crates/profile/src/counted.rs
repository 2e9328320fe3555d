//! The stacks of a view, each counted once, with its labels from the root to the leaf.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use spindoctor_model::stack::{Frame, Spin, StackEnd, ThreadState};

use crate::view::View;

/// What a label of a stack stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LabelKind {
    /// The group at the root.
    Group,
    /// A function of the process.
    User,
    /// A call that the compiler inlined.
    Inlined,
    /// A function of the kernel.
    Kernel,
    /// No function: that the walk ended too early.
    End,
}

/// One step of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label<'a> {
    /// What to show, as the server gave it: each format escapes it for itself.
    pub name: Cow<'a, str>,
    /// What it stands for.
    pub kind: LabelKind,
}

/// A stack that was seen so many times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted<'a> {
    /// From the group at the root to the innermost function.
    pub labels: Vec<Label<'a>>,
    /// What the threads were doing.
    pub state: ThreadState,
    /// Whether they were spinning.
    pub spin: Option<Spin>,
    /// Observations.
    pub count: u64,
    /// Place in `Profile::stacks`.
    pub stack: u32,
}

impl<'a> View<'a> {
    /// Every stack once, with its group, in order of count, the commonest first.
    pub fn counted(&self) -> Vec<Counted<'a>> {
        let mut counts: HashMap<(Cow<'a, str>, u32, ThreadState, Option<Spin>), u64> = HashMap::new();
        for seen in &self.observations {
            *counts.entry((self.group(seen), seen.stack, seen.state, seen.spin)).or_default() += 1;
        }
        let mut counted: Vec<Counted<'a>> = counts
            .into_iter()
            .map(|((group, stack, state, spin), count)| Counted {
                labels: self.labels(group, stack),
                state,
                spin,
                count,
                stack,
            })
            .collect();
        counted.sort_by(|a, b| {
            b.count.cmp(&a.count).then_with(|| a.labels.cmp(&b.labels)).then_with(|| a.state.cmp(&b.state))
        });
        counted
    }

    /// The same for people: the insides of libraries whose functions have no names are left out. A stack that enters
    /// one by such a function shows the library's name in that place.
    pub fn simplified(&self) -> Vec<Counted<'a>> {
        let mut places: HashMap<(Vec<Label<'a>>, ThreadState, Option<Spin>), usize> = HashMap::new();
        let mut simplified: Vec<Counted<'a>> = Vec::new();
        for mut stack in self.counted() {
            stack.labels = self.simple_labels(&stack);
            match places.entry((stack.labels.clone(), stack.state, stack.spin)) {
                Entry::Occupied(known) => simplified[*known.get()].count += stack.count,
                Entry::Vacant(new) => {
                    new.insert(simplified.len());
                    simplified.push(stack);
                }
            }
        }
        simplified.sort_by_key(|stack| std::cmp::Reverse(stack.count));
        simplified
    }

    /// The labels of a stack that [`Self::counted`] gave, simplified.
    pub fn simple_labels(&self, stack: &Counted<'a>) -> Vec<Label<'a>> {
        let frames: Vec<&Frame> = self.frames(stack.stack).rev().collect();
        // The group, and whatever else stands before the frames.
        let before = stack.labels.len() - frames.len();
        let mut labels = stack.labels[..before].to_vec();
        let mut within = None;
        for (frame, label) in frames.iter().zip(&stack.labels[before..]) {
            match self.unnamed_in_library(frame) {
                // How a thread begins, and how a library does what its first function was asked for.
                Some(_) if labels.len() == before || within == frame.module => {}
                Some(library) => labels.push(Label { name: library.into(), kind: label.kind }),
                None => labels.push(label.clone()),
            }
            within = frame.module;
        }
        if labels.len() == before
            && let Some(innermost) = stack.labels[before..].last()
        {
            labels.push(innermost.clone());
        }
        labels
    }

    /// The file's name, where a frame lies in a library and has no name but its address.
    fn unnamed_in_library(&self, frame: &Frame) -> Option<&'a str> {
        let module = &self.profile.modules[frame.module? as usize];
        let file = module.path.rsplit('/').next().unwrap_or_default();
        let program = self.profile.process.program.rsplit('/').next();
        let is_unnamed = frame.name.strip_prefix(file).is_some_and(|rest| rest.starts_with("+0x"));
        (is_unnamed && !frame.kernel && Some(file) != program).then_some(file)
    }

    /// A stack from its group to its innermost frame.
    fn labels(&self, group: Cow<'a, str>, stack: u32) -> Vec<Label<'a>> {
        let mut labels = vec![Label { name: group, kind: LabelKind::Group }];
        match &self.profile.stacks[stack as usize].end {
            StackEnd::Root => {}
            StackEnd::Cut(_) => labels.push(Label { name: "[cut]".into(), kind: LabelKind::End }),
            StackEnd::None(why) => {
                labels.push(Label { name: format!("[no stack: {why}]").into(), kind: LabelKind::End });
            }
        }
        labels.extend(self.frames(stack).rev().map(|frame| Label {
            name: self.name(frame).into(),
            kind: match frame {
                Frame { kernel: true, .. } => LabelKind::Kernel,
                Frame { inlined: true, .. } => LabelKind::Inlined,
                _ => LabelKind::User,
            },
        }));
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Choice;
    use crate::view::tests::one_thread;

    #[test]
    fn the_insides_of_libraries_without_names_are_left_out_and_the_programs_own_stay() {
        let shown = |frames: &[(u32, &str)]| {
            let profile = one_thread(frames, ThreadState::Lock);
            let view = View::new(&profile, &Choice::default()).unwrap();
            let [stack] = &view.simplified()[..] else { panic!("one stack") };
            let names: Vec<&str> = stack.labels[1..].iter().map(|label| label.name.as_ref()).collect();
            names.join(" < ")
        };
        let in_libc = (1, "libc.so.6+0x9cefe");
        assert_eq!(
            shown(&[
                in_libc,
                (1, "pthread_cond_wait"),
                (0, "mysqld+0x12"),
                (0, "do_command"),
                in_libc,
                in_libc
            ]),
            "do_command < mysqld+0x12 < pthread_cond_wait"
        );
        assert_eq!(
            shown(&[(2, "libssl.so.3+0x1"), (2, "libssl.so.3+0x2"), (0, "vio_read")]),
            "vio_read < libssl.so.3"
        );
        assert_eq!(shown(&[in_libc, in_libc]), "libc.so.6+0x9cefe");
        assert_eq!(shown(&[]), "");
    }
}
