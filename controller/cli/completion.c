/* completion.c -- batonctl completion bash: a script made from the table of commands, so that it cannot lag behind. */
#include <stdio.h>
#include <string.h>

#include "controller/cli/print.h"

static void print_words(void)
{
    (void)printf("  local commands=\"");
    for (unsigned i = 0; i < cli_commands_count; i++) {
        (void)printf("%s%s", i > 0 ? " " : "", cli_commands[i].name);
    }
    (void)printf("\"\n  local kinds=\"");
    for (size_t i = 0; i < cli_kinds_count; i++) {
        (void)printf("%s%s %s", i > 0 ? " " : "", cli_kinds[i].plural, cli_kinds[i].singular);
    }
    (void)printf("\"\n");
}

static const char body[] =
    "  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
    "  local actions=\"plan start status watch pause resume advance check promote abort retry undo "
    "\"\n"
    "  actions+=\"history trace\"\n"
    "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$commands\" -- \"$word\")\n"
    "    return\n"
    "  fi\n"
    "  case $previous in\n"
    "    -o|--output) mapfile -t COMPREPLY < <(compgen -W 'wide json yaml name' -- \"$word\"); "
    "return ;;\n"
    "    -f|--filename|--ca|--cert|--key|--token-file|--guard-page) mapfile -t COMPREPLY < "
    "<(compgen -f -- \"$word\"); "
    "return ;;\n"
    "    --weights|--self-update) mapfile -t COMPREPLY < <(compgen -d -- \"$word\"); return ;;\n"
    "    -m|--model) mapfile -t COMPREPLY < <(compgen -W \"$(_batonctl_names models)\" -- "
    "\"$word\"); return ;;\n"
    "  esac\n"
    "  if [[ $word == -* ]]; then\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$(batonctl \"${COMP_WORDS[1]}\" --help 2>/dev/null "
    "| "
    "grep -o -- '--[a-z-]*')\" -- \"$word\")\n"
    "    return\n"
    "  fi\n"
    "  case ${COMP_WORDS[1]}:$COMP_CWORD in\n"
    "    get:2|describe:2) mapfile -t COMPREPLY < <(compgen -W \"$kinds\" -- \"$word\") ;;\n"
    "    get:3|describe:3) mapfile -t COMPREPLY < <(compgen -W \"$(_batonctl_names "
    "\"${COMP_WORDS[2]}\")\" -- \"$word\") ;;\n"
    "    roll:2|rollout:2) mapfile -t COMPREPLY < <(compgen -W \"$actions\" -- \"$word\") ;;\n"
    "    roll:3|rollout:3|wait:2|endpoints:2|judge:2|staleness:2) mapfile -t COMPREPLY < <(compgen "
    "-W \"$(_batonctl_names "
    "models)\" "
    "-- \"$word\") ;;\n"
    "    cordon:2|uncordon:2|drain:2|retire:2) mapfile -t COMPREPLY < <(compgen -W \"$(batonctl "
    "get "
    "groups -o name 2>/dev/null; batonctl get agents -o name 2>/dev/null)\" -- \"$word\") ;;\n"
    "    sleep:2|wake:2) mapfile -t COMPREPLY < <(compgen -W \"$(for k in models groups agents; do "
    "batonctl get $k -o name 2>/dev/null; done)\" -- \"$word\") ;;\n"
    "    pin:2|unpin:2) mapfile -t COMPREPLY < <(compgen -W \"$(batonctl get groups -o name "
    "2>/dev/null; _batonctl_names versions)\" -- \"$word\") ;;\n"
    "    quarantine:2|unquarantine:2) mapfile -t COMPREPLY < <(compgen -W \"$(_batonctl_names "
    "versions)\" -- \"$word\") ;;\n"
    "    suspend:2|hold:2|resume:2) mapfile -t COMPREPLY < <(compgen -W \"$(batonctl get models -o "
    "name "
    "2>/dev/null)\" -- \"$word\") ;;\n"
    "    delta:2) mapfile -t COMPREPLY < <(compgen -W 'encode verify apply' -- \"$word\") ;;\n"
    "    delta:*) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
    "    engine:2) mapfile -t COMPREPLY < <(compgen -W 'check' -- \"$word\") ;;\n"
    "    layout:2) mapfile -t COMPREPLY < <(compgen -W 'show check diff plan' -- \"$word\") ;;\n"
    "    layout:*) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    store:2) mapfile -t COMPREPLY < <(compgen -W 'export import check rebuild floors' -- "
    "\"$word\") ;;\n"
    "    store:3) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    certs:2) mapfile -t COMPREPLY < <(compgen -W 'init issue' -- \"$word\") ;;\n"
    "    certs:3) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
    "    publish:*) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
    "  esac\n"
    "}\n"
    "complete -F _batonctl batonctl\n";

enum cli_exit cli_run_completion(struct cli *cli)
{
    if (cli->words_count != 1 || strcmp(cli->words[0], "bash") != 0) {
        return cli_usage("completion for which shell? there is: bash");
    }
    (void)printf("# bash completion for batonctl\n"
                 "_batonctl_names() {\n"
                 "  batonctl get \"$1\" -o name 2>/dev/null | sed 's,^[^/]*/,,'\n"
                 "}\n"
                 "_batonctl() {\n");
    print_words();
    (void)fputs(body, stdout);
    return CLI_EXIT_OK;
}
