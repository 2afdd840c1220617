/** A server with its web page, and the problems that a browser reports. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'
import { startServer } from './server.ts'

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
/** A name that would run scripts if it were markup. */
export const hostile = `<img src=x onerror=alert(1)>"'&amp;<b onclick=alert(2)>`
/** Windows of a desktop and of phones, light and dark. */
export const looks: readonly BrowserContextOptions[] = [
  { viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  { viewport: { width: 1280, height: 900 }, colorScheme: 'dark' },
  { viewport: { width: 390, height: 844 }, colorScheme: 'light', isMobile: true },
  { viewport: { width: 320, height: 640 }, colorScheme: 'dark', isMobile: true },
]

/** Starts a server whose users sign in with a password. `open` opens a browser window. */
export async function servePage(browser: Browser, settings: Parameters<typeof startServer>[0] = {}) {
  const dms = await startServer(settings)
  await dms.app.db
    .updateTable('users')
    .set({ password_hash: await dms.app.passwords.hash('pässwörd 1') })
    .execute()
  /** Problems that the browser reports: errors on the console, and pop-up windows. */
  const trouble: string[] = []
  const open = async (options: BrowserContextOptions = {}): Promise<{ context: BrowserContext; page: Page }> => {
    const context = await browser.newContext({ baseURL: dms.url, ...options })
    onTestFinished(() => context.close())
    context.on('console', (message) => {
      if (message.type() === 'error' && !/status of 4\d\d/.test(message.text())) trouble.push(message.text())
    })
    context.on('dialog', (dialog) => {
      trouble.push(dialog.message())
      void dialog.dismiss()
    })
    return { context, page: await context.newPage() }
  }
  const signIn = async (page: Page, path = '/') => {
    await page.goto(path)
    await page.getByLabel('User name').fill('ada')
    await page.getByLabel('Password').fill('pässwörd 1')
    await page.keyboard.press('Enter')
    await page.getByRole('searchbox').waitFor()
  }
  return { ...dms, trouble, open, signIn }
}

/** Checks a page with axe-core, and that it fits the width of the window. */
export async function expectAccessible(page: Page, name: string): Promise<void> {
  const { violations } = (await page.evaluate(`${await readFile(axe, 'utf8')};axe.run()`)) as {
    violations: { id: string; nodes: { html: string }[] }[]
  }
  expect.soft([name, violations.map(({ id, nodes }) => [id, ...nodes.map((node) => node.html)])]).toEqual([name, []])
  const width = await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth')
  expect.soft([name, page.viewportSize()?.width, width]).toEqual([name, page.viewportSize()?.width, 0])
}
