-- :Treadle What does this project do?   asks, and shows the answer as it comes.
-- :TreadleStop                          stops it.
-- Put this file into Neovim's `plugin/` folder; Neovim 0.7 or newer, with nothing but its own client.

local agent, instance = "assistant", vim.fn.getcwd()
local id

local function append(text)
  local last = vim.api.nvim_buf_line_count(0)
  local line = vim.api.nvim_buf_get_lines(0, last - 1, last, false)[1]
  vim.api.nvim_buf_set_lines(0, last - 1, last, false, vim.split(line .. text, "\n"))
end

local function show(params)
  if params.agent == agent and params.instance == instance and params.kind == "text" then
    append(params.text)
  end
end

local function client()
  id = id or vim.lsp.start_client({
    name = "treadle",
    cmd = { "treadle", "serve" },
    root_dir = vim.fn.getcwd(),
    handlers = { ["session/delta"] = function(_, params) show(params) end },
    on_exit = function() id = nil end,
  })
  return vim.lsp.get_client_by_id(id)
end

vim.api.nvim_create_user_command("Treadle", function(command)
  vim.cmd("new")
  vim.bo.buftype, vim.bo.filetype = "nofile", "markdown"
  local params = { agent = agent, instance = instance, prompt = command.args }
  client().request("session/prompt", params, function(err)
    if err then append("\n" .. err.message) end
  end)
end, { nargs = "+" })

vim.api.nvim_create_user_command("TreadleStop", function()
  client().request("session/cancel", { agent = agent, instance = instance }, function() end)
end, {})
