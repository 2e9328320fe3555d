//! Manual pages and completions, for `script/dist`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;

use super::args::PackageFiles;
use crate::common::exit::ExitStatus;

/// The program, as it is typed.
const NAME: &str = env!("CARGO_PKG_NAME");
/// Shells that packages have completions for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// Writes them below the folder: `man/spindoctor.1` and a page for each command, and the completions of each shell under the
/// name that it looks for.
pub fn run(asked: &PackageFiles, program: &Command) -> anyhow::Result<ExitStatus> {
    let (man, completions) = (asked.folder.join("man"), asked.folder.join("completions"));
    write(&man, &completions, without_hidden(program))
        .with_context(|| format!("could not write to {}", asked.folder.display()))?;
    Ok(ExitStatus::Done)
}

fn write(man: &Path, completions: &Path, mut program: Command) -> std::io::Result<()> {
    fs::create_dir_all(man)?;
    fs::create_dir_all(completions)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut program, NAME, completions)?;
    }
    clap_mangen::generate_to(program, man)
}

/// The program without commands that nobody types: completions would have them.
fn without_hidden(program: &Command) -> Command {
    let typed = program.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .about(program.get_about().cloned().unwrap_or_default())
        .after_help(program.get_after_help().cloned().unwrap_or_default())
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .args(program.get_arguments().cloned())
        .subcommands(typed.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    use clap::Arg;

    fn program() -> Command {
        let shown = Command::new("look").about("Look at it").arg(Arg::new("pid").long("pid").help("Whose"));
        let hidden = Command::new("behind").hide(true);
        Command::new(NAME).about("Does it all").subcommand(shown).subcommand(hidden)
    }

    #[test]
    fn each_command_has_a_page_and_each_shell_its_completions() {
        let folder = tempfile::tempdir().unwrap();
        let asked = PackageFiles { folder: folder.path().join("made/here") };
        run(&asked, &program()).unwrap();
        let names = |of: &str| {
            let entries = fs::read_dir(asked.folder.join(of)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names("man"), ["spindoctor-look.1", "spindoctor.1"]);
        assert_eq!(names("completions"), ["_spindoctor", "spindoctor.bash", "spindoctor.fish"]);
        let page = fs::read_to_string(asked.folder.join("man/spindoctor-look.1")).unwrap();
        assert!(page.contains("Look at it") && page.contains("\\-\\-pid"), "{page}");
        for name in names("completions") {
            let text = fs::read_to_string(asked.folder.join("completions").join(&name)).unwrap();
            assert!(text.contains("pid") && !text.contains("behind"), "{name}: {text}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let asked = PackageFiles { folder: file.path().to_owned() };
        let error = run(&asked, &program()).unwrap_err();
        assert!(error.to_string().contains(file.path().to_str().unwrap()), "{error}");
    }
}
