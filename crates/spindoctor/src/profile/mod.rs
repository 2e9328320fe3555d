//! A profile on its way from the profiler to a format: saved and loaded, filtered, grouped, summed up as a tree,
//! compared with another.

pub(crate) mod difference;
pub(crate) mod file;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod statement;
pub(crate) mod tree;
pub(crate) mod view;

pub(crate) use view::{By, Choice, Label, LabelKind, View};
