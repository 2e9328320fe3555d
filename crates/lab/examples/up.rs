//! Starts a lab server and leaves it up: `cargo run -p spindoctor-lab --example up -- mysql`, or
//! `mariadb`, `down NAME`, `list`. A second word names the server; words with `--` are its options.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use spindoctor_lab::load::Tables;
use spindoctor_lab::{Home, ServerSpec, Which};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (options, words): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|word| word.starts_with("--"));
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let home = Home::open()?;
    let which = match words[..] {
        ["down", name] => return Ok(spindoctor_lab::down(&home, name)?),
        ["mariadb", ..] => Which::Mariadb,
        ["mysql", ..] => Which::Mysql,
        _ => {
            for server in spindoctor_lab::list(&home)? {
                println!("{server:#?}");
            }
            return Ok(());
        }
    };
    let spec = ServerSpec {
        which,
        name: Some(words.get(1).unwrap_or(&words[0]).to_string()),
        tables: Some(Tables { count: 4, rows: 10_000 }),
        options,
        ..ServerSpec::default()
    };
    let server = spindoctor_lab::up(&home, &spec, &|line| eprintln!("{line}")).await?;
    println!("{server:#?}");
    Ok(())
}
