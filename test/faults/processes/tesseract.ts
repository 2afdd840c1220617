/** A scripted `tesseract`, first on the PATH. */
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import { bareEnvironment } from '../../support/processes/run.ts'

export const behaviours = {
  good: 'printf "%s\\n5\\t1\\t1\\t1\\t1\\t1\\t10\\t10\\t80\\t20\\t96\\tharbour\\n" "$header"',
  slow: 'sleep 4; printf "%s\\n5\\t1\\t1\\t1\\t1\\t1\\t10\\t10\\t80\\t20\\t96\\tharbour\\n" "$header"',
  'takes a moment': 'sleep 0.1; printf "%s\\n5\\t1\\t1\\t1\\t1\\t1\\t10\\t10\\t80\\t20\\t96\\tharbour\\n" "$header"',
  crashes: 'kill -SEGV $$',
  hangs: 'sleep 12345',
  'prints garbage': 'head -c 100000 /dev/urandom',
  'prints nothing': 'exit 0',
  'prints without end': 'exec yes',
} as const

export type Behaviour = keyof typeof behaviours

/** Writes the program below `folder`. Returns the variables that select it, and a function that sets its behaviour. */
export async function fakeTesseract(folder: string) {
  const bin = join(folder, 'bin')
  const program = join(bin, 'tesseract')
  await mkdir(bin, { recursive: true })
  const behave = async (behaviour: Behaviour) => {
    await writeFile(
      program,
      `#!/bin/sh
case "$1" in
  --version) echo 'tesseract 5.3.0'; exit ;;
  --list-langs) echo 'List of available languages in "/nonexistent/" (0):'; exit ;;
esac
header="$(printf 'level\\tpage_num\\tblock_num\\tpar_num\\tline_num\\tword_num\\tleft\\ttop\\twidth\\theight\\tconf\\ttext')"
${behaviours[behaviour]}
`,
    )
    await chmod(program, 0o755)
  }
  await behave('good')
  return { env: { PATH: `${bin}:${bareEnvironment().PATH}`, DMS_OCR_ENGINE: 'tesseract-native' }, behave }
}

/** Returns a new picture each time, which needs OCR. */
export async function picture(): Promise<Buffer> {
  const [width, height] = [200, 100]
  const gray = Buffer.alloc(width * height, 255)
  for (let at = 0; at < 400; at++) gray[Math.floor(Math.random() * gray.length)] = 0
  return sharp(gray, { raw: { width, height, channels: 1 } })
    .png()
    .toBuffer()
}
