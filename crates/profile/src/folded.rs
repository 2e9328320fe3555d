//! Folded stacks, as Brendan Gregg's flame graph tools read them: `group;outermost;...;innermost count`. Kernel
//! functions end in `_[k]`, inlined ones in `_[i]`, as those tools mark them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::counted::{Counted, Label, LabelKind};
use super::view::View;
use spindoctor_page::safe::safe;

/// One stack a line, in order of name.
pub fn render(view: &View<'_>) -> String {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in view.counted() {
        *lines.entry(path(&stack)).or_default() += stack.count;
    }
    let mut text = String::new();
    for (path, count) in lines {
        let _ = writeln!(text, "{path} {count}");
    }
    text
}

/// A stack from its group to its innermost function.
pub fn path(stack: &Counted<'_>) -> String {
    stack.labels.iter().map(label).collect::<Vec<_>>().join(";")
}

/// A name without what separates names; the count stands behind a line's last blank, so blanks may stay.
fn label(label: &Label<'_>) -> String {
    let name = safe(&label.name).replace(';', ":");
    match label.kind {
        LabelKind::Kernel => format!("{name}_[k]"),
        LabelKind::Inlined => format!("{name}_[i]"),
        LabelKind::Group | LabelKind::User | LabelKind::End => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::view::Choice;

    #[test]
    fn each_line_is_a_stack_and_its_count() {
        let profile = examples::busy();
        let text = render(&View::new(&profile, &Choice::default()).unwrap());
        insta::assert_snapshot!(text);
        let counted: u64 =
            text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        assert_eq!(counted, profile.observations.len() as u64);
    }

    #[test]
    fn a_name_can_neither_end_its_line_nor_begin_another_frame() {
        let profile = examples::hostile();
        let text = render(&View::new(&profile, &Choice::default()).unwrap());
        assert_eq!(text.lines().count(), 1, "{text}");
        let stack = text.trim_end().rsplit_once(' ').unwrap().0;
        // The group, the mark of a cut stack, and the five functions.
        assert_eq!(stack.split(';').count(), 7, "{stack}");
    }
}
