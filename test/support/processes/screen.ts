/** Fake streams of a command. */
import type { Streams } from '../../../commands/program.ts'

export interface Screen {
  streams: Streams
  stdout: () => string
  stderr: () => string
}

/** Returns fake streams: standard output is a terminal of `columns`, or a pipe (null); standard error is a pipe and standard input is empty. */
export function screen(env: Record<string, string>, columns: number | null): Screen {
  const said = { stdout: '', stderr: '' }
  const stream = (name: keyof typeof said, isTTY: boolean) => ({
    isTTY,
    columns: columns ?? undefined,
    write(text: string) {
      said[name] += text
      return true
    },
  })
  const streams = { env, stdin: { isTTY: false }, stdout: stream('stdout', columns !== null), stderr: stream('stderr', false) }
  return { streams: streams as unknown as Streams, stdout: () => said.stdout, stderr: () => said.stderr }
}
