//! `spindoctor tune --plan`: what could be changed on this server; nothing is.

#[cfg(test)]
mod examples;
mod html;
pub mod run;
mod text;
mod view;
