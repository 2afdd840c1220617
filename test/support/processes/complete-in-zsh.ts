/** Completion in an interactive zsh on a pseudo-terminal, with its own completion system. */
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

export interface ZshCompletion {
  readonly offered: readonly string[]
  /** the line after the key Tab */
  readonly line: string
}

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** Collects the candidates that zsh accepts for the word at the cursor, with the part of the word before them. */
const capture = `
compadd() {
  local -a hits
  if [[ -z \${(M)@:#-[ADO]*} ]]; then
    builtin compadd -A hits "$@"
    (( $#hits )) && print -rl -- "$IPREFIX"$^hits >> $out
  fi
  builtin compadd "$@"
}
capture() {
  local line
  for line in $lines; do
    print -r -- "> $line" >> $out
    BUFFER=$line CURSOR=$#line
    zle complete-word
    print -r -- "= $BUFFER" >> $out
    BUFFER=
  done
  exit
}
zle -N capture
bindkey '^X' capture
print -r ready
`

/** Completes lines in `folder` with the script; `path` is the PATH. */
export async function completeInZsh(script: string, lines: readonly string[], folder: string, path: string): Promise<ZshCompletion[]> {
  const [rc, out] = [join(folder, '.zsh.rc'), join(folder, '.zsh.out')]
  const setUp = `out=${quote(out)} PROMPT= RPROMPT=
unsetopt automenu
autoload -Uz compinit; compinit -u -D
source ${quote(script)}
lines=(${lines.map(quote).join(' ')})
${capture}`
  await writeFile(rc, setUp)
  await writeFile(out, '')
  const driver = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z ${quote(`source ${quote(rc)}`)}
zpty -r z chunk '*ready*'
zpty -w -n z $'\\x18'
while zpty -r z chunk; do :; done`
  // The status is that of the last read, of a terminal that is closed.
  await promisify(execFile)('zsh', ['-fc', `${driver}\nexit 0`], { cwd: folder, env: { PATH: path, TERM: 'xterm', HOME: folder } })
  return (await readFile(out, 'utf8'))
    .split(/^> .*\n/m)
    .slice(1)
    .map((text) => {
      const all = text.slice(0, -1).split('\n')
      return { offered: all.slice(0, -1), line: (all.at(-1) ?? '').slice(2) }
    })
}
