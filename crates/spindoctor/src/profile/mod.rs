//! A profile on its way from the profiler to a format: filtered, grouped, summed up as a tree,
//! compared with another.

pub(crate) mod difference;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod tree;
pub(crate) mod view;

pub(crate) use view::{By, Choice, Label, LabelKind, View};
