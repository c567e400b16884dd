"""``softkin completion``: the scripts with which shells complete commands, options, their values and files.

Each script is a few lines long: at each Tab it passes the words of the line to ``softkin completion SHELL --words …``.
That command asks the parser itself and prints one candidate per line, then a tab, then its help; a line of a tab and
"files" or "folders" means that a path may stand there. No heavy module is loaded for this; see ``choices.py``.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from softkin.cli import choices

SUMMARY = "print the completion script of a shell"
DESCRIPTION = """\
Print a script with which a shell completes softkin's commands, options, names and files. For bash, once:
  softkin completion bash > ~/.local/share/bash-completion/completions/softkin
For zsh, into a folder of $fpath:
  softkin completion zsh > ~/.zfunc/_softkin
For fish:
  softkin completion fish > ~/.config/fish/completions/softkin.fish"""
EXAMPLE = "softkin completion bash"
MORE_EXAMPLES = ("softkin completion zsh",)

SCRIPTS = {
    "bash": r"""# softkin in bash
_softkin() {
    local IFS=$'\n' line
    COMPREPLY=()
    for line in $(softkin completion bash --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
        case "$line" in
            $'\t'files) compopt -o filenames 2>/dev/null
                COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")) ;;
            $'\t'folders) compopt -o filenames 2>/dev/null
                COMPREPLY+=($(compgen -d -- "${COMP_WORDS[COMP_CWORD]}")) ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done
}
complete -F _softkin softkin
""",
    "zsh": r"""#compdef softkin
# softkin in zsh
_softkin() {
    local line tab=$'\t'
    local -a matches
    for line in ${(f)"$(softkin completion zsh --words "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        case $line in
            ${tab}files) _files ;;
            ${tab}folders) _files -/ ;;
            *) matches+=("${${line%%${tab}*}//:/\\:}:${line#*${tab}}") ;;
        esac
    done
    (( $#matches )) && _describe softkin matches
}
compdef _softkin softkin
""",
    "fish": r"""# softkin in fish
function __softkin_complete
    set --local words (commandline --tokenize --cut-at-cursor --current-process)
    for line in (softkin completion fish --words $words[2..] (commandline --current-token) 2>/dev/null)
        switch $line
            case \tfiles
                __fish_complete_path (commandline --current-token)
            case \tfolders
                __fish_complete_directories (commandline --current-token) ''
            case '*'
                echo $line
        end
    end
end
complete --command softkin --no-files --arguments '(__softkin_complete)'
""",
}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    command.add_argument("shell", choices=list(SCRIPTS), help="shell that the script is for")
    command.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def check(arguments: argparse.Namespace) -> None:
    """Check nothing: the parser has refused all invalid arguments."""


def run(arguments: argparse.Namespace) -> None:
    """Print the script, or the completions of the last word."""
    from softkin.cli import parser

    if arguments.words is None:
        print(SCRIPTS[arguments.shell], end="")
        return
    for word, about in candidates(parser(), arguments.words or [""]):
        print(f"{word}\t{about}")


def candidates(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[tuple[str, str]]:
    """Pairs (completion of the last word, its help); ("", "files") or ("", "folders") where a path may stand."""
    *before, current = [word for word in words if word != "="] if words[-1] != "=" else [*words[:-1], ""]
    pending: argparse.Action | None = None  # the option whose value comes next
    places = _places(parser)
    for word in before:
        if pending is not None:
            pending = None
        elif word.startswith("-") and word != "-":
            parser, places = _usual(parser, places, word)
            pending = None if "=" in word else _taking_a_value(parser, word)
        elif places and isinstance(places[0], argparse._SubParsersAction):
            usual = getattr(places[0], "usual", None)
            if word not in places[0].choices and usual is None:
                return
            named = word in places[0].choices
            parser = places[0].choices[word if named else str(usual)]
            places = _places(parser) if named else _places(parser)[1:]
        elif places and places[0].nargs not in ("+", "*"):
            places = places[1:]
    option, equals, value = current.partition("=")
    if equals and option.startswith("-"):
        parser, places = _usual(parser, places, option)
    if pending is not None:
        yield from _values(pending, current)
    elif equals and option.startswith("-") and (action := _taking_a_value(parser, option)) is not None:
        yield from ((f"{option}={word}" if word else word, about) for word, about in _values(action, value))
    elif current.startswith("-"):
        parser, _ = _usual(parser, places, current)
        for name, action in parser._option_string_actions.items():
            if name.startswith(current) and action.help != argparse.SUPPRESS and name.startswith("--"):
                yield name, _about(action)
    elif places:
        yield from _values(places[0], current)


def _usual(
    parser: argparse.ArgumentParser, places: list[argparse.Action], option: str
) -> tuple[argparse.ArgumentParser, list[argparse.Action]]:
    """The parser of the default action and its places, if no action is named yet and the option is not the parser's."""
    usual = getattr(places[0], "usual", None) if places else None
    if usual is None or option.partition("=")[0] in parser._option_string_actions:
        return parser, places
    assert isinstance(places[0], argparse._SubParsersAction)
    chosen = places[0].choices[usual]
    return chosen, _places(chosen)


def _places(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The positional arguments, in order."""
    return [action for action in parser._actions if not action.option_strings]


def _taking_a_value(parser: argparse.ArgumentParser, option: str) -> argparse.Action | None:
    action = parser._option_string_actions.get(option)
    return action if action is not None and action.nargs != 0 else None


def _values(action: argparse.Action, current: str) -> Iterator[tuple[str, str]]:
    """The completions of an argument's value."""
    if isinstance(action, argparse._SubParsersAction):
        about = {command.dest: command.help or "" for command in action._choices_actions}
        yield from ((name, about.get(name, "")) for name in action.choices if name.startswith(current))
        if hasattr(action, "usual"):  # the first argument of the default action may stand here too
            yield from _values(_places(action.choices[action.usual])[0], current)
        return
    names = [str(choice) for choice in action.choices or ()]
    if hasattr(action, "names"):
        names = list(choices.listed(action.names))
    cut = max((current.rfind(letter) for letter in getattr(action, "separators", "")), default=-1) + 1
    yield from ((f"{current[:cut]}{name}", "") for name in names if name.startswith(current[cut:]))
    kind = getattr(action, "complete", None)
    if kind is None and action.type is Path:
        kind = choices.FOLDER if "FOLDER" in str(action.metavar) else choices.FILE
    if kind is not None:
        yield "", kind


def _about(action: argparse.Action) -> str:
    return " ".join(((action.help or "") % vars(action)).split())
