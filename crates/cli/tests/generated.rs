//! Completions and manual pages, made from the command line's types.

mod common;

use std::process::Command;

use common::Place;

#[test]
fn bash_completes_commands_and_flags_from_the_script() {
    let test = "bash_completes_commands_and_flags_from_the_script";
    let Some(place) = Place::new(test) else { return };
    let script = place.run(&["completions", "bash"]);
    assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""));
    let file = place.write("completions.bash", &script.stdout);
    for (words, expected) in [
        ("countersign appl", "apply"),
        ("countersign app", "apply approve"),
        ("countersign apply --comm", "--commit"),
        ("countersign run --trace f", "full"),
        ("countersign gener", ""),
    ] {
        let last = words.split(' ').next_back().unwrap();
        let line = format!(
            "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _countersign countersign {last} \
             ${{COMP_WORDS[COMP_CWORD-1]}}; echo ${{COMPREPLY[@]}}",
            file.display()
        );
        let Ok(output) = Command::new("bash").args(["--norc", "-c", &line]).output() else {
            eprintln!("SKIPPED: {test}: bash is not here");
            return;
        };
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), expected, "{words}");
    }
    for shell in ["zsh", "fish"] {
        let script = place.run(&["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains("self-starting"), "{shell}");
    }
    let refused = place.run(&["completions", "tcsh"]);
    assert!(refused.code == Some(1) && refused.stderr.contains("bash, zsh or fish"), "{refused:?}");
}

#[test]
fn every_command_has_a_manual_page() {
    let Some(place) = Place::new("every_command_has_a_manual_page") else { return };
    assert_eq!(place.run(&["generate", "man", "man"]).code, Some(0));
    let help = place.run(&["--help"]).stdout;
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let mut count = 0;
    for name in commands.filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let name = name.split_whitespace().next().unwrap();
        let page = std::fs::read_to_string(place.path(&format!("man/countersign-{name}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("DESCRIPTION"), "{name}: {page}");
        count += 1;
    }
    assert!(count > 15 && help.contains("completions") && !help.contains("generate"), "{help}");
    assert!(!place.path("man/countersign-generate.1").exists());
}
