//! `spindoctor tune --plan`: what could be changed on this server; nothing is changed.

#[cfg(test)]
mod examples;
mod html;
pub mod run;
mod text;
mod view;
